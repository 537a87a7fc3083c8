"""Which label-free score tracks accuracy best when it chooses step size and rounds?

ERM + Matcha on the columns of Table 1, held-out seeds 10 and 11. Every setting's accuracy is
measured with the held-out targets' labels; InfoMax, PIC, Stein risk and the expected accuracy that
`adapt` decides by each choose a setting per column without them.

Run: python -m matcha_paper.studies.choosing_rounds [--device cuda]
         [--out results/search/choosing-rounds.json]
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
from torch import Tensor

from matcha_gnn import ERM, Backbone, View, unlabelled
from matcha_gnn.evidence.posterior import infer
from matcha_gnn.gamma.functional import entropy, scaled_stein_risk
from matcha_gnn.gamma.losses.sure import SteinForms, stein_forms
from matcha_gnn.gamma.result import MatchaResult
from matcha_gnn.io.jsontext import write_json
from matcha_gnn.metrics import accuracy
from matcha_paper.experiments.rounds import watched
from matcha_paper.experiments.run import adapt_cell
from matcha_paper.experiments.source_models import make_graph
from matcha_paper.experiments.spec import Cell, cells
from matcha_paper.studies.search_settings import STEP_SIZES
from matcha_paper.studies.shared import (
    HELD_OUT,
    arguments,
    held_out_table,
    run_study,
    source_of,
    with_models,
)

ROUNDS = (5, 10, 20, 50, 100, 200)
SCORES = ("InfoMax", "PIC", "Stein risk", "expected accuracy")


def infomax(probs: Tensor) -> float:
    """Entropy of the mean prediction less the mean entropy."""
    return float(entropy(probs.mean(0, keepdim=True))[0] - entropy(probs).mean())


def unexplained(forms: SteinForms, gamma: Tensor) -> float:
    """Stein risk of hop weights, as a share of the risk of a constant."""
    risk: float = scaled_stein_risk(gamma.double().cpu().numpy(), *forms)[0]
    return float(risk / (forms.gram[0, 0] - forms.noise))


def settings_of(cell: Cell, model: Backbone, device: str) -> dict[str, list[float]]:
    """Accuracy, then what each score minimises, by setting, named 'lr rounds'."""
    graph = make_graph(cell.target).to(device)
    target = unlabelled(graph)
    forms = stein_forms(View(model, target, model.hops(target), model.gamma.detach(), 0))
    posterior = infer(source_of(model), target, model.probs(target))
    found = {}
    for lr in STEP_SIZES:
        method, rounds = watched(ERM(), lambda probs: probs)
        result = adapt_cell(cell, model, graph, method, lr, max(ROUNDS))
        assert isinstance(result, MatchaResult), "no row of this study is of the default"
        history = result.trace
        for n in ROUNDS:
            found[f"{lr:g} {n}"] = [
                accuracy(rounds[n], graph.y),
                -infomax(rounds[n]),
                history.loss[n],
                unexplained(forms, history.gamma[n]),
                -posterior.expected_accuracy(rounds[n].argmax(1)),
            ]
    return found


def choices(seeds: list[dict[str, list[float]]]) -> dict[str, dict[str, str | float]]:
    """The setting that each score chooses over the seeds, and the one that labels choose."""
    table = {s: np.mean([seed[s] for seed in seeds], 0).tolist() for s in seeds[0]}
    chosen = {
        score: min(table, key=lambda s, place=place: table[s][place])  # type: ignore[misc]
        for place, score in enumerate(SCORES, 1)
    }
    chosen["labels"] = max(table, key=lambda s: table[s][0])
    return {
        score: {"setting": s, "accuracy": round(100 * table[s][0], 2)}
        for score, s in chosen.items()
    }


def main() -> None:
    """Print what each score chooses in each column, and how accurate it is."""
    parser = arguments(__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    by_column: dict[str, list[dict[str, list[float]]]] = {}
    wanted = (c for c in cells(held_out_table("table1"), HELD_OUT) if c.row == "ERM + Matcha")
    for cell, model in with_models(wanted, args.device):
        plain = replace(cell, run=replace(cell.run, only={}))
        by_column.setdefault(cell.column, []).append(settings_of(plain, model, args.device))
    record = {column: choices(seeds) for column, seeds in by_column.items()}
    for column, chosen in record.items():
        print(column, chosen)
    if args.out:
        write_json(args.out, record, indent=1)


if __name__ == "__main__":
    run_study(main)
