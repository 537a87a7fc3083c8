"""What neutral hops behind a plain network restore under structure shift, and what they do not.

Run: python benchmarks/added_hops.py [--seeds 5] [--kinds gcn sage gat]
"""

import argparse
import statistics

import torch
import torch_geometric.nn as pyg
from torch.nn import functional as F  # noqa: N812

import matcha_gnn as mg

NODES, FEATURES, WIDTH, EPOCHS = 2000, 200, 32, 100
KINDS = {"gcn": pyg.GCNConv, "sage": pyg.SAGEConv, "gat": pyg.GATConv}
SHIFTS = {
    "homophily 0.8 → 0.2": ({"homophily": 0.8}, {"homophily": 0.2}),
    "homophily 0.2 → 0.8": ({"homophily": 0.2}, {"homophily": 0.8}),
    "degree 5 → 1": ({"degree": 5.0}, {"degree": 1.0}),
    "degree 1 → 5": ({"degree": 1.0}, {"degree": 5.0}),
}


class Plain(torch.nn.Module):
    """Two convolutions and a linear layer."""

    def __init__(self, kind):
        super().__init__()
        self.conv1, self.conv2 = kind(FEATURES, WIDTH), kind(WIDTH, WIDTH)
        self.lin = torch.nn.Linear(WIDTH, 2)

    def forward(self, x, edge_index):
        h = F.dropout(self.conv1(x, edge_index).relu(), 0.5, self.training)
        return self.lin(self.conv2(h, edge_index).relu())


def trained(kind, graph, seed):
    torch.manual_seed(seed)
    net = Plain(kind)
    steps = torch.optim.Adam(net.parameters(), lr=0.01, weight_decay=5e-4)
    for _ in range(EPOCHS):
        steps.zero_grad()
        F.cross_entropy(net(graph.x, graph.edge_index), graph.y).backward()
        steps.step()
    return net.eval()


def accuracies(model, target):
    result = mg.adapt(model, target, strategy=mg.Matcha())
    pair = (result.probs_before, result.probs)
    return [100 * float((probs.argmax(1) == target.y).float().mean()) for probs in pair]


def measure(kind, shift, seed):
    """Accuracy before, with one, two and four added hops, and of the kind trained on a target.

    GPRGNN has hops of its own: its nine are adapted in all three.
    """
    source, target, other = (
        mg.datasets.csbm(NODES, FEATURES, **options, seed=seed + offset)
        for options, offset in zip((*shift, shift[1]), (0, 1000, 2000), strict=True)
    )
    if kind == "gprgnn":
        model = mg.GPRGNN(FEATURES, 2)
        mg.fit(model, source, epochs=EPOCHS, seed=seed)
        before, after = accuracies(model, target)
        native = mg.GPRGNN(FEATURES, 2)
        mg.fit(native, other, epochs=EPOCHS, seed=seed)
        return [before, after, after, after, accuracies(native, target)[0]]
    net, native = (trained(KINDS[kind], graph, seed) for graph in (source, other))
    added = [accuracies(mg.add_hops(net, head="lin", K=hops), target) for hops in (1, 2, 4)]
    there = accuracies(mg.add_hops(native, head="lin"), target)[0]
    return [added[0][0], *(pair[1] for pair in added), there]


def main():
    parser = argparse.ArgumentParser()
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
    main()
