"""A thousand graphs through one watch: does memory grow, does it slow down?

Graphs of 10,000 nodes are drawn one after the other, with homophily that goes down and comes back,
and observed by one watch that saves its state after each. Memory is the resident set of the process
after a graph; time is that of the processor, as other work on the machine would show in seconds on
the clock. Both are compared between the first and the last hundred graphs after the first fifty,
in which caches fill.

Run: python benchmarks/watch.py [--graphs 1000] [--nodes 10000]
"""

import argparse
import json
import math
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

import torch
from common import memory_status, processor, rounded

import matcha_gnn as mg

RECORD = Path(__file__).parents[1] / "results" / "watch-soak.json"
FEATURES, CLASSES, WARM, WINDOW = 32, 3, 50, 100


def graph(nodes: int, homophily: float, seed: int) -> Any:
    shares = [1 / CLASSES] * CLASSES
    return mg.datasets.csbm(
        nodes, FEATURES, homophily=homophily, degree=6, signal=1.5, shares=shares, seed=seed
    )


def follow(watch: mg.Watch, graphs: int, nodes: int, state: Path) -> dict[str, list[float]]:
    seen: dict[str, list[float]] = {"cpu_s": [], "clock_s": [], "megabytes": [], "state_bytes": []}
    for number in range(graphs):
        homophily = 0.85 - 0.75 * math.sin(math.pi * number / graphs)
        met = graph(nodes, homophily, 1 + number)
        cpu, clock = process_time(), perf_counter()
        watch.observe(met, name=f"{number}")
        watch.save(state)
        seen["cpu_s"].append(process_time() - cpu)
        seen["clock_s"].append(perf_counter() - clock)
        seen["megabytes"].append(memory_status("VmRSS") / 1e6)
        seen["state_bytes"].append(state.stat().st_size)
        if number % 100 == 99:
            print(f"{number + 1} graphs, {seen['megabytes'][-1]:.0f} MB", flush=True)
    return seen


def compared(seen: dict[str, list[float]]) -> dict[str, Any]:
    """Medians of the first and the last window, and their ratio."""
    found = {}
    for name, values in seen.items():
        first, last = (median(part) for part in (values[WARM : WARM + WINDOW], values[-WINDOW:]))
        found[name] = {"first": first, "last": last, "last_over_first": last / first}
    found["megabytes"]["largest"] = max(seen["megabytes"])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--graphs", type=int, default=1000)
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--out", type=Path, default=RECORD)
    args = parser.parse_args()
    if args.graphs < WARM + WINDOW:
        parser.error(f"--graphs must be at least {WARM + WINDOW}")
    torch.set_num_threads(1)
    model = mg.GPRGNN(FEATURES, CLASSES)
    mg.fit(model, graph(args.nodes, 0.85, 0), epochs=100)
    with tempfile.TemporaryDirectory() as folder:
        seen = follow(mg.Watch(model), args.graphs, args.nodes, Path(folder) / "state.safetensors")
    record = {
        "command": f"python benchmarks/watch.py --graphs {args.graphs} --nodes {args.nodes}",
        "machine": processor("cpu"),
        "torch": torch.__version__,
        "graphs": args.graphs,
        "nodes": args.nodes,
        **compared(seen),
    }
    text = json.dumps(rounded(record), indent=1)
    print(text)
    args.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
