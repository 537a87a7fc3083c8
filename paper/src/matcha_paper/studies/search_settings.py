"""Choose step size and rounds for a table without any target label, on held-out seeds.

The setting whose labels are expected to be right most often is chosen, per row and column, averaged
over the held-out seeds. What is expected comes from the posterior of `matcha_gnn.evidence` that
`adapt` decides by: it knows the source model and the unlabelled target, and no candidate. Labels
are deleted before the target graph is used.

Run: python -m matcha_paper.studies.search_settings table1 [--rows "ERM + Matcha"]
         [--seeds 10 11 12 13] [--device cuda] [--jobs 16]
Writes results/search/NAME.json and prints what to put into the experiment's file.
"""

import json
from collections.abc import Iterable
from concurrent.futures import as_completed
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import Any

from matcha_gnn import unlabelled
from matcha_gnn.evidence.posterior import infer
from matcha_gnn.io.files import output_folder
from matcha_gnn.io.jsontext import write_json
from matcha_paper.experiments import load
from matcha_paper.experiments.rounds import watched
from matcha_paper.experiments.run import adapt_cell, build_method, worker_pool
from matcha_paper.experiments.source_models import make_graph, train_source
from matcha_paper.experiments.spec import BELIEF, DRAWN, OURS, Cell, Experiment, cells
from matcha_paper.studies.shared import HELD_OUT, arguments, read_record, run_study, source_of

STEP_SIZES = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
ROUNDS = tuple(range(2, 101, 2))
"""The path of γ has narrow peaks: at homo-hetero accuracy falls by six points in ten rounds."""


def score(group: list[Cell], device: str) -> dict[str, dict[str, float]]:
    """Expected accuracy by row and setting, named 'lr rounds'; one column, one seed."""
    model = train_source(group[0], device, {cell.run.method for cell in group})
    graph = make_graph(group[0].target).to(device)
    del graph.y
    target = unlabelled(graph)
    posterior = infer(source_of(model), target, model.probs(target))
    found: dict[str, dict[str, float]] = {}
    for cell in group:
        plain = replace(cell, run=replace(cell.run, only={}))
        settings = found.setdefault(cell.row, {})
        for lr in STEP_SIZES:
            method, rounds = watched(build_method(plain.run), lambda probs: probs.argmax(1))
            adapt_cell(plain, model, graph, method, lr, max(ROUNDS))
            reached = [n for n in ROUNDS if n < len(rounds)]
            settings |= {
                f"{lr:g} {n}": round(posterior.expected_accuracy(rounds[n]), 5) for n in reached
            }
    return found


def searched(
    experiment: Experiment, rows: list[str] | None, seeds: Iterable[int]
) -> dict[tuple[str, int], list[Cell]]:
    """The cells that have a step size to choose, by column and held-out seed.

    Columns whose seeds share one target graph are left out: there a seed that no table uses would
    still be chosen on the graph that is evaluated.
    """
    groups: dict[tuple[str, int], list[Cell]] = {}
    for cell in cells(experiment, tuple(seeds)):
        by_itself = cell.run.optimizer == "exact" or cell.run.loss in (OURS, BELIEF)
        steps = cell.run.epochs > 0 and not by_itself
        if steps and cell.target["generator"] in DRAWN and (not rows or cell.row in rows):
            groups.setdefault((cell.column, cell.seed), []).append(cell)
    return groups


def write(record: dict[str, Any], path: Path) -> None:
    """Cells end in any order; the record has one."""
    write_json(path, json.loads(json.dumps(record, sort_keys=True)), indent=1)


def choose(record: dict[str, Any]) -> None:
    """Add to every row and column the setting that is best over its seeds."""
    for columns in record.values():
        for by_seed in columns.values():
            by_seed.pop("chosen", None)
            shared = set.intersection(*(set(settings) for settings in by_seed.values()))
            by_seed["chosen"] = max(
                sorted(shared), key=lambda s: mean(v[s] for v in by_seed.values())
            )


def main() -> None:
    """Score all settings, record them, and print the chosen ones as TOML."""
    parser = arguments(__doc__)
    parser.add_argument("name")
    parser.add_argument("--rows", nargs="*")
    parser.add_argument("--seeds", nargs="*", type=int, default=HELD_OUT)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    out = args.out or Path("results/search") / f"{args.name}.json"
    output_folder(out.parent)
    record = read_record(out)
    groups = searched(load(args.name), args.rows, args.seeds)
    with worker_pool(args.jobs) as pool:
        running = {pool.submit(score, group, args.device): key for key, group in groups.items()}
        for future in as_completed(running):
            column, seed = running[future]
            for row, settings in future.result().items():
                record.setdefault(row, {}).setdefault(column, {})[str(seed)] = settings
            print(column, seed, flush=True)
            write(record, out)
    choose(record)
    write(record, out)
    for row, columns in record.items():
        print(f'[rows."{row}".only]')
        for column, by_seed in columns.items():
            lr, rounds = by_seed["chosen"].split()
            print(f"{column} = {{ lr = {float(lr)}, epochs = {rounds} }}")


if __name__ == "__main__":
    run_study(main)
