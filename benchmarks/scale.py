"""Graphs larger than memory: seconds by stage, peak memory and accuracy from 10,000 nodes on.

Every stage is a command in a process of its own, with a limit on memory. Source model: CSBM with
5,000 nodes and homophily 0.8; targets: homophily 0.2, average degree 10, 32 features; width 32,
K = 9, 20 rounds of PIC around ERM, step size 1. Labels are used for scores alone. Seeds 10 and 11.
`matcha reproduce scale` does the same for all sizes at once.

python benchmarks/scale.py [--sizes 10000,100000] [--folder DIR] [--memory 4GB] [--threads 2]
writes results/scale.json and the figure's numbers; sizes that are not run keep their record.
"""

import argparse
import json
import tempfile
from pathlib import Path

import torch

from matcha_paper.figures import csv_of, drawn, write_rows
from matcha_paper.figures.scale import SIZES, measured, rounds_measured

RESULTS = Path(__file__).parents[1] / "results"
RECORD = RESULTS / "scale.json"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "matcha-scale")
    parser.add_argument("--memory", default="4GB")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--keep", action="store_true", help="leave the stores there")
    parser.add_argument(
        "--rounds-only", action="store_true", help="measure rounds again, on stores that were kept"
    )
    args = parser.parse_args()
    rows = json.loads(RECORD.read_text())["sizes"] if RECORD.is_file() else []
    for nodes in (int(size) for size in args.sizes.split(",")):
        given = nodes, args.folder, args.memory, args.threads
        if args.rounds_only:
            row = next(r for r in rows if r["nodes"] == nodes) | rounds_measured(*given)
        else:
            row = measured(*given, args.keep)
        rows = sorted([r for r in rows if r["nodes"] != nodes] + [row], key=lambda r: r["nodes"])
        record = {"command": "python benchmarks/scale.py", "sizes": rows}
        RECORD.write_text(json.dumps(record, indent=2) + "\n")
        print(json.dumps(row, indent=2), flush=True)
    keys = list(dict.fromkeys(key for row in rows for key in row))
    write_rows([{key: row.get(key) for key in keys} for row in rows], csv_of("scale", RESULTS))
    drawn("scale", RESULTS)


if __name__ == "__main__":
    main()
