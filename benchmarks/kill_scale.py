"""Runs out of core that are killed at random moments: each rerun must end as an unbroken run.

A run is a process that makes the hops of a store and adapts to it. It is killed with SIGKILL after
a random share of the time that an unbroken run takes, during propagation or adaptation, then
started again and left alone. Its answer must be that of the unbroken run, bit for bit.

python benchmarks/kill_scale.py [KILLS] [NODES]   writes results/scale-kills.json
"""

import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import matcha_gnn as mg

ROOT = Path(__file__).parents[1]
RUN = ROOT / "tests" / "graphs" / "stored" / "runs.py"
METHODS = ("erm", "t3a", "tent", "default")


def run(folder: Path, method: str, kill_after: float | None = None) -> tuple[float, bool]:
    """Seconds of a run, and whether it was killed."""
    given = folder / "model.safetensors", folder / "store", folder / "answer.npz", "1GB", method
    start = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, str(RUN), *map(str, given)], stdout=subprocess.DEVNULL
    ) as process:
        try:
            process.wait(kill_after)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
        code = process.wait()
    if code not in (0, -signal.SIGKILL):
        raise SystemExit(f"{method}: exit {code}")
    return time.perf_counter() - start, code != 0


def fresh(folder: Path) -> None:
    shutil.rmtree(folder / "store" / "hops", ignore_errors=True)
    (folder / "answer.npz").unlink(missing_ok=True)


def files_there(folder: Path) -> int:
    """Finished hops."""
    return len(list((folder / "store" / "hops").rglob("hop-*.npy")))


def prepared(folder: Path, nodes: int) -> None:
    model = mg.GPRGNN(32, 2, 32, 9)
    mg.fit(model, mg.datasets.csbm(2000, 32, degree=10, seed=10), epochs=60, seed=10)
    mg.save_model(model, folder / "model.safetensors")
    mg.datasets.store_csbm(folder / "store", nodes, 32, degree=10, homophily=0.2, seed=11)


def main() -> None:
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    nodes = int(sys.argv[2]) if len(sys.argv) > 2 else 200_000
    rng, trials = np.random.default_rng(10), list[dict[str, Any]]()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        prepared(folder, nodes)
        whole: dict[str, tuple[float, dict[str, Any]]] = {}
        for method in METHODS:
            fresh(folder)
            seconds, _ = run(folder, method)
            with np.load(folder / "answer.npz") as answer:
                whole[method] = seconds, dict(answer)
        while len(trials) < kills:
            method = METHODS[len(trials) % len(METHODS)]
            seconds, expected = whole[method]
            fresh(folder)
            # Imports take the first second and a half.
            after = float(rng.uniform(1.5, seconds))
            _, killed = run(folder, method, after)
            if not killed:
                continue
            hops = files_there(folder)
            run(folder, method)
            with np.load(folder / "answer.npz") as answer:
                same = all(np.array_equal(answer[name], expected[name]) for name in expected)
            left = len(list((folder / "store" / "hops").rglob(".hop-*")))
            trial = {
                "method": method,
                "killed_after": round(after, 2),
                "unbroken": round(seconds, 2),
            }
            trials.append(trial | {"hops_there": hops, "same_answer": same, "left_over": left})
            print(trials[-1], flush=True)
    record = {
        "command": f"python benchmarks/kill_scale.py {kills} {nodes}",
        "kills": len(trials),
        "during_propagation": sum(t["hops_there"] < 10 for t in trials),
        "same_answer": sum(t["same_answer"] for t in trials),
        "left_over_files": sum(t["left_over"] for t in trials),
        "trials": trials,
    }
    (ROOT / "results" / "scale-kills.json").write_text(json.dumps(record, indent=2) + "\n")
    print({key: value for key, value in record.items() if key != "trials"})


if __name__ == "__main__":
    main()
