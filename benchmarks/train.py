"""Source training with the published CSBM recipe beside the plain PyTorch loop, in one run.

5,000 nodes, 2,000 features, dropout one half at three places, Adam. The plain loop is what the
library replaces: `F.dropout` on the features, torch's CSR product and autograd through every hop.
Both are trained on the same graphs with several seeds, and their accuracies on another graph of the
same kind are kept beside the times: same law, other draws.

Run: python benchmarks/train.py [--device cuda] [--full]
The short run trains for 40 epochs with three seeds; --full for the published 500.
"""

from time import perf_counter

import numpy as np
import torch
from common import arguments, store
from torch.nn import functional as F  # noqa: N812

import matcha_gnn as mg

NODES, FEATURES, RATE = 5_000, 2_000, 0.5


def plain_loop(model: mg.GPRGNN, graph, epochs: int, seed: int) -> None:
    torch.manual_seed(seed)
    model.reset_parameters()
    model.requires_grad_(True).train()
    matrix = mg.unlabelled(graph).adjacency.matrix
    steps = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    for _ in range(epochs):
        steps.zero_grad()
        hidden = F.relu(model.norm(model.linear(F.dropout(graph.x, RATE))))
        hop = F.dropout(F.dropout(hidden, RATE), RATE)
        z = model.gamma[0] * hop
        for weight in model.gamma[1:]:
            hop = matrix @ hop
            z = z + weight * hop
        F.cross_entropy(model.head(z), graph.y).backward()
        steps.step()
    model.eval()


def accuracy(model: mg.GPRGNN, graph) -> float:
    with torch.no_grad():
        return mg.metrics.accuracy(model(graph.x, graph.edge_index), graph.y)


def main() -> None:
    args = arguments(__doc__).parse_args()
    epochs, seeds = (500 if args.full else 40), range(3)
    graph = mg.datasets.csbm(NODES, FEATURES, homophily=0.8, seed=0).to(args.device)
    other = mg.datasets.csbm(NODES, FEATURES, homophily=0.8, seed=1).to(args.device)
    model = mg.GPRGNN(FEATURES, 2, hidden_channels=32, K=9, dropout=RATE).to(args.device)
    ways = {
        "ours": lambda seed: mg.fit(model, graph, epochs=epochs, seed=seed),
        "plain": lambda seed: plain_loop(model, graph, epochs, seed),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    scores: dict[str, list[float]] = {name: [] for name in ways}
    for seed in seeds:
        for name, train in ways.items():
            start = perf_counter()
            train(seed)
            seconds[name].append(perf_counter() - start)
            scores[name].append(accuracy(model, other))
    best = {name: min(values) / epochs for name, values in seconds.items()}
    row = {"epochs": epochs, "seeds": len(seeds)}
    row |= {f"{name}_epoch_ms": 1e3 * value for name, value in best.items()}
    row |= {"faster_than_plain": best["plain"] / best["ours"]}
    row |= {f"{name}_accuracy": float(np.mean(values)) for name, values in scores.items()}
    row |= {f"{name}_accuracy_spread": float(np.std(values)) for name, values in scores.items()}
    store("train", args, row)


if __name__ == "__main__":
    main()
