"""A run that is killed and started again ends with the records of a run that was not.

As a script it makes both: it imports everything, computes nothing, and forks itself for each run,
so that a run starts at once.
"""

import importlib
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from time import perf_counter, sleep

from matcha_paper.experiments import run, store
from matcha_paper.experiments.spec import cells, parse

KILLS = 20
IMPORTED = ("api", "datasets", "metrics", "gamma.running", "gamma.train")
TINY = {
    "title": "tiny",
    "seeds": [0, 1],
    "data": {"generator": "csbm", "num_nodes": 60, "num_features": 4, "signal": 3.0},
    "train": {
        "backbone": "gprgnn",
        "hidden_channels": 4,
        "K": 2,
        "epochs": 10,
        "lr": 0.01,
        "weight_decay": 0.0,
    },
    "columns": {
        "a": {"source": {"homophily": 0.8}, "target": {"homophily": 0.2}},
        "b": {"source": {"homophily": 0.2}, "target": {"homophily": 0.8}},
    },
    "rows": {
        "ERM": {"method": "erm", "epochs": 0},
        "Tent + Matcha": {"method": "tent", "epochs": 3},
    },
}


def test_killed_at_random_moments_and_resumed_gives_the_same_records(tmp_path):
    quiet = {"MATCHA_COMMIT": "test", "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, __file__, tmp_path], check=True, env=os.environ | quiet)
    unbroken = records(tmp_path / "unbroken")
    killed = sorted(tmp_path.glob("killed-*"))
    assert killed
    assert all(records(folder) == unbroken for folder in killed)


def records(folder: Path) -> dict[tuple[str, str, int], dict]:
    """Every record without its timings, by cell."""
    found = store.read("tiny", folder)
    for record in found.values():
        del record["seconds"]
    assert len(found) == len(cells(parse("tiny", TINY)))
    return found


def started(folder: Path) -> int:
    """Run all cells in a process of its own; its number."""
    child = os.fork()
    if child == 0:
        run(parse("tiny", TINY), folder, jobs=1)
        os._exit(0)
    return child


def ended(child: int) -> bool:
    """Whether it has come to its end by itself, and well."""
    number, status = os.waitpid(child, os.WNOHANG)
    assert status == 0
    return number == child


def main(folder: Path) -> None:
    """Run unbroken, then killed at random moments until 20 kills have hit, then to the end."""
    for part in IMPORTED:
        importlib.import_module(f"matcha_gnn.{part}")
    importlib.import_module("torch_geometric.data")
    os.waitpid(started(folder / "warm"), 0)
    start = perf_counter()
    os.waitpid(started(folder / "unbroken"), 0)
    length = perf_counter() - start
    moments, kills, folders = random.Random(0), 0, 0
    while kills < KILLS:
        child = started(folder / f"killed-{folders}")
        sleep(moments.uniform(0, length))
        if ended(child):
            # A run in a complete folder ends at once: a kill would never hit it.
            folders += 1
            continue
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        kills += 1
    os.waitpid(started(folder / f"killed-{folders}"), 0)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
