"""Would hop weights of their own for nodes of each degree do better than one set for all?

On the degree shifts of the tuning half of the harm study: the default, weights per degree group
fitted to the same posterior, both again fitted with the target's labels, and the posterior's own
labels, which is what any weights could at best agree with. Labels are read for the two label-fitted
columns and for scoring alone.

Run: python -m matcha_gnn.paper.studies.degree_groups [--device cuda]
         [--out results/degree-groups.json]
"""

from pathlib import Path

import torch

import matcha_gnn as mg
from matcha_gnn.evidence import fit_hop_weights, infer
from matcha_gnn.evidence.belief_model import network_probs
from matcha_gnn.io.jsontext import write_json
from matcha_gnn.metrics import accuracy
from matcha_gnn.paper.studies.harm import label_fitted, train_on
from matcha_gnn.paper.studies.harm_cases import TUNING_SEEDS, Case, cases, target_graph
from matcha_gnn.paper.studies.shared import arguments, run_study

SHIFTS = ("high-low", "attr-high-low", "few epochs, homo-hetero", "homo-hetero")
GROUPS = ((0, 0), (1, 1), (2, 2), (3, 4), (5, 9), (10, 10**9))
FEWEST = 30
"""Nodes that a group needs for weights of its own; smaller ones keep the source's."""


@torch.no_grad()
def grouped(model: mg.Backbone, graph: mg.Graph, targets: torch.Tensor) -> torch.Tensor:
    """Predictions [N, C] of weights fitted to `targets` within each degree group."""
    degrees = torch.bincount(graph.edge_index[1], minlength=graph.num_nodes)
    stack = model.hops(graph, keyed=False).stack
    probs = targets.new_zeros(targets.shape)
    for low, high in GROUPS:
        inside = (degrees >= low) & (degrees <= high)
        hops, gamma = mg.Hops(stack[inside]), model.gamma.detach()
        if inside.sum() >= FEWEST:
            view = mg.View(model, graph, hops, gamma, 0)
            gamma = fit_hop_weights(view, targets[inside], intercept=False).gamma
        if inside.any():
            probs[inside] = mg.View(model, graph, hops, gamma, 0).classify().probs.to(probs)
    return probs


def measure(case: Case, seed: int, device: str) -> dict[str, object]:
    """Accuracy of each answer in percent."""
    model, labelled = train_on(case.source, seed, device), target_graph(case, seed)
    graph = mg.unlabelled(labelled)
    default = mg.adapt(model, labelled)
    assert default.decision is not None
    moved = default.model if "moved back" in default.decision.chosen else model
    posterior = infer(model, graph, network_probs(model, graph))
    truth = torch.nn.functional.one_hot(labelled.y, 2).double()
    answers = {
        "before": default.probs_before,
        "default": default.probs,
        "per degree": grouped(moved, graph, posterior.probs),
        "labels": label_fitted(moved, labelled),
        "labels, per degree": grouped(moved, graph, truth),
        "posterior": posterior.probs,
    }
    scores = {name: 100 * accuracy(probs, labelled.y) for name, probs in answers.items()}
    return {"case": case.name, "seed": seed, **scores}


def main() -> None:
    """Print one line for each shift and seed."""
    parser = arguments(__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    chosen = [case for case in cases()["tuning"] if case.name in SHIFTS]
    runs = []
    for case in chosen:
        for seed in TUNING_SEEDS:
            runs.append(measure(case, seed, args.device))
            print(runs[-1], flush=True)
    if args.out:
        write_json(args.out, {"runs": runs}, indent=0)


if __name__ == "__main__":
    run_study(main)
