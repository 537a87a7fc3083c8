"""Choose step size and rounds for a table without any target label, on held-out seeds.

For every row inside Matcha and every column, each step size is run once, and after each number of
rounds the prediction is scored by InfoMax: entropy of the mean prediction minus mean entropy. The
setting of the highest mean score over the held-out seeds is chosen. Labels are deleted before the
target graph is used.

Run: python benchmarks/search_settings.py table1 [--device cuda] [--rows "ERM + Matcha"]
Writes results/search/NAME.json and prints what to put into the experiment's file.
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path
from statistics import mean

import torch

from matcha_gnn.experiments import load
from matcha_gnn.experiments.run import adapt_cell, build_method, make_graph, train_source
from matcha_gnn.experiments.spec import Cell, cells
from matcha_gnn.functional import entropy
from matcha_gnn.methods import BaseMethod

HELD_OUT = (10, 11)
STEP_SIZES = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
ROUNDS = (10, 20, 50, 100)


class Scored(BaseMethod):
    """Passes everything on to a method and keeps the InfoMax of each prediction."""

    name = "scored"

    def __init__(self, inner: BaseMethod) -> None:
        self._inner, self._scores = inner, []
        self.prepare, self.start, self.require = inner.prepare, inner.start, inner.require

    def predict(self, view, state):
        prediction, state = self._inner.predict(view, state)
        probs = prediction.probs
        self._scores.append(entropy(probs.mean(0, keepdim=True))[0] - entropy(probs).mean())
        return prediction, state

    def scores(self) -> list[float]:
        return torch.stack(self._scores).tolist()


def score_cell(cell: Cell, model, graph) -> dict[str, float]:
    """InfoMax by setting, named 'lr rounds'."""
    found = {}
    for lr in STEP_SIZES:
        method = Scored(build_method(cell.run))
        adapt_cell(cell, model, graph, method, lr, max(ROUNDS))
        scores = method.scores()
        found |= {f"{lr:g} {n}": scores[n] for n in ROUNDS if n < len(scores)}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rows", nargs="*")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    experiment = load(args.name)
    out = args.out or Path("results/search") / f"{args.name}.json"
    record = json.loads(out.read_text()) if out.exists() else {}
    models = {}
    for cell in cells(experiment, HELD_OUT):
        if cell.run.epochs == 0 or (args.rows and cell.row not in args.rows):
            continue
        key = repr((sorted(cell.source.items()), cell.seed))
        if key not in models:
            models = {key: train_source(cell, args.device)}
        graph = make_graph(cell.target).to(args.device)
        del graph.y
        cell = replace(cell, run=replace(cell.run, only={}))
        place = record.setdefault(cell.row, {}).setdefault(cell.column, {})
        place[str(cell.seed)] = score_cell(cell, models[key], graph)
        print(cell.row, cell.column, cell.seed, flush=True)
    for row, columns in record.items():
        for column, by_seed in columns.items():
            by_seed.pop("chosen", None)
            shared = set.intersection(*(set(scores) for scores in by_seed.values()))
            chosen = max(sorted(shared), key=lambda s: mean(v[s] for v in by_seed.values()))
            by_seed["chosen"] = chosen
            print(f"{row} | {column}: lr, rounds = {chosen}")
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
