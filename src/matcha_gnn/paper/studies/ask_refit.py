"""Would γ gain if answers were used to fit it, beside the evidence?

γ is fitted to the evidence of all nodes and to answers, which together get a fifth, half or four
fifths of the weight, or to answers alone. Answers are at the first nodes of the order of questions.

Run: python -m matcha_gnn.paper.studies.ask_refit --out results/ask-refit.json
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

import matcha_gnn as mg
from matcha_gnn.evidence import fit_hop_weights, infer
from matcha_gnn.evidence.belief_model import network_probs
from matcha_gnn.io.jsontext import write_json
from matcha_gnn.metrics import accuracy
from matcha_gnn.paper.studies.ask_runs import collect
from matcha_gnn.paper.studies.ask_saved import Shift
from matcha_gnn.paper.studies.harm import train_on
from matcha_gnn.paper.studies.harm_cases import Case, cases, target_graph
from matcha_gnn.paper.studies.shared import arguments
from matcha_gnn.questions.decision import Design

SHIFTS = (
    *("ACM-DBLP", "DBLP-ACM", "USA-Brazil", "Brazil-USA", "twitch DE-ES", "twitch DE-ENGB"),
    *("cora, degree", "syn-cora r1, 0.8-0.4", "skewed, label, hetero"),
)
COUNTS = (25, 50, 100, 200)
SHARES = (0.2, 0.5, 0.8, 1.0)
"""Of the weight that answers get; 1 for answers alone."""
ORDERS = 3


def refitted(model: mg.Backbone, graph: Data, prior: Tensor, nodes: Tensor, share: float) -> Tensor:
    """Predictions [N, C] of the γ that fits evidence [N, C] and answers at some nodes."""
    target = mg.unlabelled(graph)
    truth = torch.nn.functional.one_hot(graph.y[nodes], prior.shape[1]).double()
    with torch.no_grad():
        hops = model.hops(target, keyed=False)
        stack, wanted = hops.stack[nodes], truth
        if share < 1:
            # Repeated rows stand for weights.
            times = max(1, round(share / (1 - share) * len(prior) / len(nodes)))
            stack = torch.cat([hops.stack, stack.repeat(times, 1, 1)])
            wanted = torch.cat([prior, truth.repeat(times, 1)])
        seen = mg.View(model, target, mg.Hops(stack), model.gamma.detach(), 0)
        gamma = fit_hop_weights(seen, wanted, intercept=False).gamma
        return mg.View(model, target, hops, gamma, 0).classify().probs


def study(case: Case, seed: int = 0) -> dict[str, Any]:
    """Accuracy of the source, of the best candidate, and of γ fitted with answers."""
    model = train_on(case.source, seed)
    graph = target_graph(case, seed)
    every = torch.ones(graph.num_nodes, dtype=torch.bool)
    graph.scored = graph.get("test_mask", every)
    shift = Shift(case.name, case.family, case.source.real)
    run = collect(model, graph, shift, "erm", seed)
    target = mg.unlabelled(graph)
    prior = infer(model, target, network_probs(model, target)).probs.double()
    labels = np.stack([each.argmax(1) for each in _whole(model, graph)])
    found: dict[str, list[float]] = {}
    for share in SHARES:
        found[f"{share:g}"] = [
            _mean_accuracy(model, graph, prior, labels, count, share) for count in COUNTS
        ]
    best, source = float(run.accuracies.max()), float(run.accuracies[0])
    return {"case": case.name, "source": source, "best": best, "refitted": found}


def _whole(model: mg.Backbone, graph: Data) -> Sequence[Any]:
    """Predictions of a few candidates at all nodes, to draw questions by."""
    tried: tuple[mg.Strategy, ...] = (mg.Unadapted(), mg.ClosedForm(), mg.Fitted(), mg.Matcha())
    return [mg.adapt(model, graph, strategy=each).probs.numpy() for each in tried]


def _mean_accuracy(
    model: mg.Backbone, graph: Data, prior: Tensor, labels: Any, count: int, share: float
) -> float:
    scores = []
    for seed in range(ORDERS):
        order = Design(labels, prior.float().numpy(), seed).order(count)
        probs = refitted(model, graph, prior, torch.from_numpy(order), share)
        scores.append(100 * accuracy(probs, graph.y, graph.get("test_mask")))
    return float(np.mean(scores))


def table(records: Sequence[dict[str, Any]]) -> str:
    """One line for each shift."""
    head = " | ".join(f"{count} answers" for count in COUNTS)
    lines = [f"| shift | source | best candidate | {head} |", "|---" * (3 + len(COUNTS)) + "|"]
    for each in records:
        rows = zip(*each["refitted"].values(), strict=True)
        cells = " | ".join(", ".join(f"{value:.1f}" for value in row) for row in rows)
        lines.append(f"| {each['case']} | {each['source']:.1f} | {each['best']:.1f} | {cells} |")
    return "\n".join(lines)


def main() -> None:
    """Run all shifts and print the table."""
    parser = arguments(__doc__)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    known = {case.name: case for half in cases().values() for case in half}
    records = [study(known[name]) for name in SHIFTS]
    if args.out:
        write_json(args.out, {"runs": records})
    print(table(records))


if __name__ == "__main__":
    main()
