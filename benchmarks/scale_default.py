"""The default on stores: what `matcha adapt MODEL STORE --memory 4GB` takes as a graph grows.

Graphs and model are those of `benchmarks/scale.py`. Every run is a process of its own that makes
the hops too; seconds are from the start of `adapt` to its result, as it reports them by stage.

Run: python benchmarks/scale_default.py [--sizes 1000000,10000000] [--folder DIR] [--threads 2]
writes results/scale-default.json; sizes that are not run keep their record.
"""

import argparse
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import torch

from matcha_gnn.io.jsontext import write_json
from matcha_paper.figures.scale import made_store, run_command, source_model

RECORD = Path(__file__).parents[1] / "results" / "scale-default.json"
MEMORY = "4GB"


def measured(nodes: int, folder: Path, threads: int) -> dict[str, Any]:
    """One run on a store that is made for it and removed."""
    model, (store, _) = source_model(folder, threads), made_store(nodes, folder, threads)
    out = folder / "default-out"
    done = run_command(
        "adapt", model, store, "-o", out, "--force", "--memory", MEMORY, threads=threads
    )
    shutil.rmtree(store)
    seconds = done.said["seconds"]
    return {
        "nodes": nodes,
        "seconds": sum(seconds.values()),
        "us_per_node": 1e6 * sum(seconds.values()) / nodes,
        "peak_gb": done.peak / 1e9,
        "stages": seconds,
        "status": done.said["status"],
        "accuracy_before": done.said["accuracy_before"],
        "accuracy_after": done.said["accuracy_after"],
        "threads": threads,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", default="1000000,10000000")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "matcha-scale")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    args = parser.parse_args()
    rows = (
        {r["nodes"]: r for r in json.loads(RECORD.read_text())["sizes"]} if RECORD.exists() else {}
    )
    for nodes in map(int, args.sizes.split(",")):
        rows[nodes] = measured(nodes, args.folder, args.threads)
        print(json.dumps(rows[nodes]), flush=True)
        sizes = [rows[each] for each in sorted(rows)]
        write_json(RECORD, {"command": "python benchmarks/scale_default.py", "sizes": sizes})


if __name__ == "__main__":
    main()
