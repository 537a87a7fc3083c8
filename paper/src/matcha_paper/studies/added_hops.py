"""What neutral hops behind a plain network restore under structure shift, and what they do not.

Run: python -m matcha_paper.studies.added_hops [--seeds 5] [--kinds gcn sage gat]
"""

import statistics
from collections.abc import Sequence
from typing import Any

import torch
import torch_geometric.nn as pyg
from torch import Tensor
from torch.nn import functional as F  # noqa: N812
from torch_geometric.data import Data

import matcha_gnn as mg
from matcha_gnn.datasets import csbm
from matcha_gnn.metrics import accuracy
from matcha_paper.studies.shared import arguments, run_study

NODES, FEATURES, WIDTH, EPOCHS = 2000, 200, 32, 100
KINDS: dict[str, Any] = {"gcn": pyg.GCNConv, "sage": pyg.SAGEConv, "gat": pyg.GATConv}
Options = dict[str, Any]
SHIFTS: dict[str, tuple[Options, Options]] = {
    "homophily 0.8 → 0.2": ({"homophily": 0.8}, {"homophily": 0.2}),
    "homophily 0.2 → 0.8": ({"homophily": 0.2}, {"homophily": 0.8}),
    "degree 5 → 1": ({"degree": 5.0}, {"degree": 1.0}),
    "degree 1 → 5": ({"degree": 1.0}, {"degree": 5.0}),
}


class Plain(torch.nn.Module):
    """Two convolutions and a linear layer."""

    def __init__(self, kind: Any) -> None:
        super().__init__()
        self.conv1, self.conv2 = kind(FEATURES, WIDTH), kind(WIDTH, WIDTH)
        self.lin = torch.nn.Linear(WIDTH, 2)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Logits of every node, [N, 2]."""
        h = F.dropout(self.conv1(x, edge_index).relu(), 0.5, self.training)
        logits: Tensor = self.lin(self.conv2(h, edge_index).relu())
        return logits


def trained(kind: Any, graph: Data, seed: int) -> Plain:
    """A plain network, trained on all nodes of a graph."""
    torch.manual_seed(seed)
    net = Plain(kind)
    steps = torch.optim.Adam(net.parameters(), lr=0.01, weight_decay=5e-4)
    for _ in range(EPOCHS):
        steps.zero_grad()
        loss = F.cross_entropy(net(graph.x, graph.edge_index), graph.y)
        loss.backward()  # type: ignore[no-untyped-call]
        steps.step()
    return net.eval()


def accuracies(model: mg.Backbone, target: Data) -> list[float]:
    """Before and after rounds of Matcha, in percent."""
    result = mg.gamma.run(model, target)
    pair = (result.probs_before, result.probs)
    return [100 * accuracy(probs, target.y) for probs in pair]


def measure(kind: str, shift: Sequence[Options], seed: int) -> list[float]:
    """Accuracy before, with one, two and four added hops, and of the kind trained on a target.

    GPRGNN has hops of its own: its nine are adapted in all three.
    """
    source, target, other = (
        csbm(NODES, FEATURES, **options, seed=seed + offset)
        for options, offset in zip((*shift, shift[1]), (0, 1000, 2000), strict=True)
    )
    if kind == "gprgnn":
        models = mg.GPRGNN(FEATURES, 2), mg.GPRGNN(FEATURES, 2)
        for model, graph in zip(models, (source, other), strict=True):
            mg.fit(model, graph, epochs=EPOCHS, seed=seed)
        (before, after), (there, _) = (accuracies(model, target) for model in models)
        return [before, after, after, after, there]
    net, native = (trained(KINDS[kind], graph, seed) for graph in (source, other))
    added = [accuracies(mg.add_hops(net, head="lin", K=hops), target) for hops in (1, 2, 4)]
    there = accuracies(mg.add_hops(native, head="lin"), target)[0]
    return [added[0][0], *(pair[1] for pair in added), there]


def main() -> None:
    """Print a Markdown table of means over the seeds."""
    parser = arguments(__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--kinds", nargs="+", default=[*KINDS, "gprgnn"])
    given = parser.parse_args()
    print("| shift | network | before | K = 1 | K = 2 | K = 4 | trained on the target's kind |")
    print("|---|---|---|---|---|---|---|")
    for name, shift in SHIFTS.items():
        for kind in given.kinds:
            rows = [measure(kind, shift, seed) for seed in range(given.seeds)]
            columns = zip(*rows, strict=True)
            cells = [f"{statistics.mean(c):.1f} ± {statistics.pstdev(c):.1f}" for c in columns]
            print(f"| {name} | {kind} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    run_study(main)
