"""Which label-free judge tracks accuracy best when it chooses step size and rounds?

ERM + Matcha on the columns of Table 1, held-out seeds 10 and 11. Every setting's accuracy is
measured with the held-out targets' labels; InfoMax, PIC and Stein risk each choose a setting per
column without them.

Run: python benchmarks/judges.py [--out results/search/judges.json]
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
from search_settings import HELD_OUT, ROUNDS, STEP_SIZES, unexplained

from matcha_gnn import ERM, View, unlabelled
from matcha_gnn.experiments import load
from matcha_gnn.experiments.run import adapt_cell, make_graph, source_model, train_source
from matcha_gnn.experiments.spec import Cell, cells
from matcha_gnn.functional import entropy
from matcha_gnn.losses import stein_forms
from matcha_gnn.metrics import accuracy

JUDGES = ("InfoMax", "PIC", "Stein risk")


class Watched(ERM):
    """ERM that keeps InfoMax and the prediction of every round."""

    def __init__(self) -> None:
        self._infomax, self._probs = [], []

    def predict(self, view, state):
        prediction, state = super().predict(view, state)
        probs = prediction.probs
        spread = entropy(probs.mean(0, keepdim=True))[0] - entropy(probs).mean()
        self._infomax.append(float(spread))
        self._probs.append(probs)
        return prediction, state


def settings_of(cell: Cell, model) -> dict[str, list[float]]:
    """Accuracy, then what each judge minimises, by setting, named 'lr rounds'."""
    graph = make_graph(cell.target)
    target = unlabelled(graph)
    forms = stein_forms(View(model, target, model.hops(target), model.gamma.detach(), 0))
    found = {}
    for lr in STEP_SIZES:
        method = Watched()
        history = adapt_cell(cell, model, graph, method, lr, max(ROUNDS)).history
        for n in ROUNDS:
            found[f"{lr:g} {n}"] = [
                accuracy(method._probs[n], graph.y),
                -method._infomax[n],
                history.loss[n],
                unexplained(forms, history.gamma[n]),
            ]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    by_column: dict[str, list[dict[str, list[float]]]] = {}
    models = {}
    for cell in cells(load("table1"), HELD_OUT):
        if cell.row != "ERM + Matcha":
            continue
        cell = replace(cell, train=replace(cell.train, ship=()), run=replace(cell.run, only={}))
        key = source_model(cell)
        if key not in models:
            models = {key: train_source(cell, "cpu")}
        by_column.setdefault(cell.column, []).append(settings_of(cell, models[key]))
    record = {}
    for column, seeds in by_column.items():
        table = {s: np.mean([seed[s] for seed in seeds], 0) for s in seeds[0]}
        chosen = {
            judge: min(table, key=lambda s, j=j: table[s][j + 1]) for j, judge in enumerate(JUDGES)
        }
        chosen["labels"] = max(table, key=lambda s: table[s][0])
        record[column] = {
            judge: {"setting": s, "accuracy": round(100 * float(table[s][0]), 2)}
            for judge, s in chosen.items()
        }
        print(column, record[column], flush=True)
    if args.out:
        args.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
