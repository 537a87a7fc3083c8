"""Candidates of the shifts of the evidence study, saved so that questions can be studied offline.

The network is GPRGNN. Candidates are those of the default, and PIC after 5, 20 and 50 rounds
around a base method.

Run: python -m matcha_paper.studies.ask_runs tuning --out FOLDER [--seeds 10 11]
         [--cases flip cora] [--methods erm] [--jobs 2]
Runs that are there already are left out.
"""

import os
from collections.abc import Sequence
from concurrent.futures import as_completed
from pathlib import Path

from torch_geometric.data import Data

import matcha_gnn as mg
from matcha_gnn.gamma.methods import METHODS
from matcha_gnn.io.files import output_folder
from matcha_paper.experiments.run import worker_pool
from matcha_paper.studies.ask_saved import SavedRun, Shift, saved_run
from matcha_paper.studies.evidence import dense, trained
from matcha_paper.studies.evidence_cases import TEST_SEEDS, TUNING_SEEDS, Pair, pairs
from matcha_paper.studies.shared import arguments, run_study

ROUNDS = (5, 20, 50)
"""Of PIC, as further candidates."""


def collect(model: mg.Backbone, target: Data, shift: Shift, method: str, seed: int) -> SavedRun:
    """Adapt in every way and keep what the candidates say.

    Args:
        model: trained on the source.
        target: with the classes `y`, and `scored`, the nodes that count.
        shift: which it is.
        method: the base method's name.
        seed: of the base method.
    """
    base = METHODS[method]()
    default = mg.adapt(model, target)
    others = {
        f"PIC, {rounds} rounds": mg.gamma.run(
            model, target, base, mg.Matcha(rounds=rounds), seed=seed
        ).probs
        for rounds in ROUNDS
    }
    return saved_run(default, target.y, target.scored, shift, others)


def file_of(folder: Path, case: str, method: str, seed: int) -> Path:
    """Where a run is saved."""
    title = "".join(c if c.isalnum() or c in ".-" else "_" for c in case)
    return folder / f"{title}-{method}-{seed}.npz"


def work(pair: Pair, case: str, seed: int, methods: Sequence[str], out: Path) -> list[str]:
    """Train once, save every run that is not there yet, and say what the candidates reach."""
    wanted = [name for name in methods if not file_of(out, case, name, seed).exists()]
    if not wanted:
        return []
    source, target = pair.draw(seed)
    source.x, target.x = dense(source.x), dense(target.x)
    classes = int(max(source.y.max(), target.y.max())) + 1
    model = trained("gpr", source, classes, seed)
    said = []
    for name in wanted:
        run = collect(model, target, Shift(case, pair.family, pair.real), name, seed)
        run.save(file_of(out, case, name, seed))
        points = dict(zip(run.names, run.accuracies.round(1).tolist(), strict=True))
        said.append(f"{case}, {name}, seed {seed}: {points}")
    return said


def main() -> None:
    """Save the runs of one half of the study."""
    halves, parser = pairs(), arguments(__doc__)
    parser.add_argument("half", choices=halves)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--cases", nargs="+", default=[""], help="names begin with one of these")
    parser.add_argument("--seeds", type=int, nargs="+")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=["erm"])
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    args = parser.parse_args()
    seeds = args.seeds or (TUNING_SEEDS if args.half == "tuning" else TEST_SEEDS)
    out = output_folder(args.out)
    chosen = {n: p for n, p in halves[args.half].items() if n.startswith(tuple(args.cases))}
    with worker_pool(args.jobs) as pool:
        running = [
            pool.submit(work, pair, name, seed, args.methods, out)
            for name, pair in chosen.items()
            for seed in seeds
        ]
        for future in as_completed(running):
            for line in future.result():
                print(line, flush=True)


if __name__ == "__main__":
    run_study(main)
