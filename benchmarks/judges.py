"""Which label-free judge tracks accuracy best when it chooses step size and rounds?

ERM + Matcha on the columns of Table 1, held-out seeds 10 and 11. Every setting's accuracy is
measured with the held-out targets' labels; InfoMax, PIC, Stein risk and the judge of the default
each choose a setting per column without them.

Run: python benchmarks/judges.py [--device cuda] [--out results/search/judges.json]
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
from held_out import HELD_OUT
from search_settings import STEP_SIZES, watched

from matcha_gnn import ERM, View, unlabelled
from matcha_gnn.evidence import infer
from matcha_gnn.functional import entropy, scaled_stein_risk
from matcha_gnn.losses import stein_forms
from matcha_gnn.metrics import accuracy
from matcha_gnn.paper.experiments import load
from matcha_gnn.paper.experiments.run import adapt_cell, make_graph, source_model, train_source
from matcha_gnn.paper.experiments.spec import Cell, cells

ROUNDS = (5, 10, 20, 50, 100, 200)
JUDGES = ("InfoMax", "PIC", "Stein risk", "the default's")


def infomax(probs) -> float:
    """Entropy of the mean prediction less the mean entropy."""
    return float(entropy(probs.mean(0, keepdim=True))[0] - entropy(probs).mean())


def unexplained(forms, gamma) -> float:
    """Stein risk of hop weights, as a share of the risk of a constant."""
    risk = scaled_stein_risk(gamma.double().cpu().numpy(), *forms)[0]
    return risk / (forms.gram[0, 0] - forms.noise)


def settings_of(cell: Cell, model, device: str) -> dict[str, list[float]]:
    """Accuracy, then what each judge minimises, by setting, named 'lr rounds'."""
    graph = make_graph(cell.target).to(device)
    target = unlabelled(graph)
    forms = stein_forms(View(model, target, model.hops(target), model.gamma.detach(), 0))
    judge = infer(model, target)
    found = {}
    for lr in STEP_SIZES:
        method, rounds = watched(ERM())
        history = adapt_cell(cell, model, graph, method, lr, max(ROUNDS)).history
        for n in ROUNDS:
            found[f"{lr:g} {n}"] = [
                accuracy(rounds[n], graph.y),
                -infomax(rounds[n]),
                history.loss[n],
                unexplained(forms, history.gamma[n]),
                -judge.expected_accuracy(rounds[n].argmax(1)),
            ]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
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
            models = {key: train_source(cell, args.device)}
        by_column.setdefault(cell.column, []).append(settings_of(cell, models[key], args.device))
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
