"""Do the random signs of SURE matter, which follow the numbers of the nodes?

CSBM from homophily 0.8 to 0.2, GPRGNN, the closed form on the target as it is and numbered by each
of its first nine features. Up to `sure.EXACT` nodes no sign is drawn.

Run: python -m matcha_paper.studies.sure_signs
Prints per size, over the ten: the accuracy of the source model and of the closed form with its
standard deviation, in %, and the share of labels that differ from those of the first.
"""

import numpy as np
import torch

import matcha_gnn as mg
from matcha_gnn.gamma.testing.graphs import permuted
from matcha_gnn.metrics import accuracy
from matcha_paper.studies.shared import arguments, run_study

SIZES = (250, 500, 1000, 2000, 5000)
ORDERS = 10


def answers(nodes: int) -> tuple[float, list[float], float]:
    """Accuracy before, accuracy after for each order, and the mean share of labels that differ."""
    source = mg.datasets.csbm(nodes, 50, homophily=0.8, signal=2.0, seed=0)
    target = mg.datasets.csbm(nodes, 50, homophily=0.2, signal=2.0, seed=1)
    model = mg.GPRGNN(50, 2)
    mg.fit(model, source, epochs=100)
    labels, scores, before = [], [], 0.0
    for feature in range(ORDERS):
        order = target.x[:, feature - 1].argsort() if feature else torch.arange(nodes)
        graph = permuted(target, order)
        result = mg.adapt(model, graph, strategy=mg.ClosedForm())
        before = accuracy(result.probs_before, graph.y)
        scores.append(accuracy(result.probs, graph.y))
        labels.append(result.labels[order.argsort()])
    differ = float(np.mean([(each != labels[0]).double().mean() for each in labels[1:]]))
    return before, scores, differ


def main() -> None:
    """Print a line for each size."""
    arguments(__doc__).parse_args()
    print("| nodes | source model | closed form | labels that differ |\n|---|---|---|---|")
    for nodes in SIZES:
        before, scores, differ = answers(nodes)
        spread = f"{100 * np.mean(scores):.2f} ± {100 * np.std(scores):.2f}"
        print(f"| {nodes:,} | {100 * before:.2f} | {spread} | {100 * differ:.2f}% |", flush=True)


if __name__ == "__main__":
    run_study(main)
