"""What a user waits for once: importing, and the first call with nothing compiled before.

Each size has a process of its own. It reads a model and adapts
to the same graph three times, by the default and by the published algorithm; `stall` is the first
call less the better of the others. The package is imported in one more process.

Run: python benchmarks/first_call.py
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import torch
from common import RESULTS, processor

import matcha_gnn as mg

# nodes, features; the first is the graph of `matcha demo`
SIZES = [(5_000, 1_000), (100_000, 64)]
STRATEGIES = {"default": None, "published": mg.Matcha(lr=1e-3)}


def in_this_process(model_file: str, graph_file: str) -> dict[str, float]:
    seconds = {}
    graph, model = torch.load(graph_file, weights_only=False), mg.load_model(model_file)
    for name, strategy in STRATEGIES.items():
        times = []
        for _ in range(3):
            start = perf_counter()
            mg.adapt(model, graph, strategy=strategy)
            times.append(perf_counter() - start)
        seconds |= {f"{name}_first_s": times[0], f"{name}_later_s": min(times[1:])}
        seconds[f"{name}_stall_s"] = times[0] - min(times[1:])
    return seconds


def in_a_fresh_process(nodes: int, features: int) -> dict[str, float]:
    source = mg.datasets.csbm(5_000, features, homophily=0.8, seed=0)
    model = mg.GPRGNN(features, 2)
    mg.fit(model, source, epochs=20)
    with tempfile.TemporaryDirectory() as place:
        model_file, graph_file = Path(place, "model.safetensors"), Path(place, "graph.pt")
        mg.save_model(model, model_file)
        torch.save(mg.datasets.csbm(nodes, features, homophily=0.2, seed=1), graph_file)
        done = subprocess.run(
            [sys.executable, __file__, str(model_file), str(graph_file)],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
    return {"nodes": nodes, "features": features, **json.loads(done.stdout)}


def import_seconds() -> float:
    code = "import time; t = time.perf_counter(); import matcha_gnn; print(time.perf_counter() - t)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(done.stdout)


def main() -> None:
    rows = [in_a_fresh_process(*size) for size in SIZES]
    record = {
        "command": "python benchmarks/first_call.py",
        "machine": processor("cpu"),
        "torch": torch.__version__,
        "import_s": float(f"{import_seconds():.2g}"),
        "shapes": [{key: round(value, 3) for key, value in row.items()} for row in rows],
    }
    text = json.dumps(record, indent=1)
    print(text)
    (RESULTS / "first-call.json").write_text(text + "\n")


if __name__ == "__main__":
    if sys.argv[1:]:
        print(json.dumps(in_this_process(*sys.argv[1:])))
    else:
        main()
