"""Graphs larger than memory: seconds by stage, peak memory and accuracy from 10,000 nodes on.

Every stage runs in a process of its own, through the command line, with a limit on memory. Source
model: CSBM, 5,000 nodes, homophily 0.8; targets: homophily 0.2, average degree 10, 32 features,
width 32, K = 9, 20 rounds of PIC around ERM. Labels are used for scores alone. Settings are those
of the published run; seeds 10 and 11.

python benchmarks/scale.py [--sizes 10000,100000] [--folder DIR] [--memory 4GB] [--threads 2]
writes results/scale.json; sizes that are not run keep their record.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

from matcha_gnn.figures.scale import Sizes, measured

RECORD = Path(__file__).parents[1] / "results" / "scale.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="10000,100000,1000000,10000000")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "matcha-scale")
    parser.add_argument("--memory", default="4GB")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    known = json.loads(RECORD.read_text())["sizes"] if RECORD.is_file() else []
    for nodes in (int(size) for size in args.sizes.split(",")):
        start = perf_counter()
        row = measured(Sizes(nodes), args.folder, args.memory, args.threads)
        known = [each for each in known if each["nodes"] != nodes] + [row]
        known.sort(key=lambda each: each["nodes"])
        RECORD.write_text(json.dumps({"command": "python benchmarks/scale.py", "sizes": known}, indent=2) + "\n")
        print(json.dumps(row), f"{perf_counter() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
