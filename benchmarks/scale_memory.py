"""The promise of memory: what `matcha adapt MODEL STORE --memory M` has resident at most.

Every run is a process of its own, with two threads and no other option than those in its row; the
first of each pair makes the hops, the second finds them there.

python benchmarks/scale_memory.py MODEL STORE   writes results/scale-memory.json

MODEL and STORE are those that `benchmarks/scale.py --sizes 1000000 --keep` leaves in its folder.
"""

import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import matcha_gnn as mg
from matcha_gnn.graphs.stored.plan import bytes_of
from matcha_paper.figures.scale import run_command

RECORD = Path(__file__).parents[1] / "results" / "scale-memory.json"
CASES: dict[str, tuple[str, tuple[str, ...]]] = {
    "default": ("1.1GB", ()),
    "20 rounds of PIC": ("1GB", ("--strategy", "matcha", "--set", "rounds=20")),
}


def measured(model: str, store: Path, memory: str, options: tuple[str, ...]) -> dict[str, Any]:
    """Peak and seconds of one run."""
    with tempfile.TemporaryDirectory() as out:
        given = "adapt", model, store, "-o", out, "--memory", memory
        done = run_command(*given, *options, threads=2)
    return {
        "command": " ".join(["matcha adapt MODEL STORE -o OUT --memory", memory, *options]),
        "promised_gb": bytes_of(memory) / 1e9,
        "peak_gb": done.peak / 1e9,
        "seconds": sum(done.said["seconds"].values()),
        "accuracy_before": done.said["accuracy_before"],
        "accuracy_after": done.said["accuracy_after"],
    }


def main() -> None:
    model, store = sys.argv[1], Path(sys.argv[2])
    nodes = mg.GraphStore(store).num_nodes
    rows = []
    for name, (memory, options) in CASES.items():
        shutil.rmtree(store / "hops", ignore_errors=True)
        for hops in ("made", "there"):
            row = {"case": name, "hops": hops, **measured(model, store, memory, options)}
            rows.append(row)
            print(row, flush=True)
    record = {"command": "python benchmarks/scale_memory.py", "nodes": nodes, "rows": rows}
    RECORD.write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
