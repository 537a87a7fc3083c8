"""Adapt a stock PyG network: train, save, load, wrap, adapt, as anybody would with their own.

Run: python examples/01_adapt_your_model.py
     MATCHA_DATA=FOLDER python examples/01_adapt_your_model.py   also Syn-Cora, from its npz files
"""

import argparse
import os
import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F  # noqa: N812
from torch_geometric.data import Data
from torch_geometric.nn import APPNP

import matcha_gnn as mg


class Net(torch.nn.Module):
    """A network as in PyG's documentation; nothing in it knows of Matcha."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.lin1 = torch.nn.Linear(features, 32)
        self.prop = APPNP(K=9, alpha=0.1)
        self.lin2 = torch.nn.Linear(32, classes)

    def forward(self, x, edge_index):
        h = F.dropout(self.lin1(F.dropout(x, 0.5, self.training)).relu(), 0.5, self.training)
        return F.log_softmax(self.lin2(self.prop(h, edge_index)), dim=1)


def train(net: Net, graph: Data, mask: torch.Tensor, epochs: int) -> None:
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01, weight_decay=5e-4)
    for _ in range(epochs):
        net.train()
        optimizer.zero_grad()
        out = net(graph.x, graph.edge_index)
        F.nll_loss(out[mask], graph.y[mask]).backward()
        optimizer.step()


def accuracy(probs: torch.Tensor, graph: Data, mask: torch.Tensor) -> float:
    return float((probs.argmax(1) == graph.y)[mask].float().mean())


def adapt_trained_network(
    name: str, source: Data, target: Data, epochs: int, seed: int
) -> tuple[float, float]:
    """Everything a user does; accuracy on the target's test nodes before and after."""
    torch.manual_seed(seed)
    classes = int(source.y.max()) + 1
    net = Net(source.num_features, classes)
    train(net, source, source.train_mask, epochs)

    with tempfile.TemporaryDirectory() as folder:
        weights = Path(folder) / "net.pt"
        torch.save(net.state_dict(), weights)
        loaded = Net(source.num_features, classes)
        loaded.load_state_dict(torch.load(weights, weights_only=True))

        print(mg.find_gamma(loaded))
        model = mg.wrap(loaded, gamma="prop.alpha", head="lin2")
        mg.summarise_source(model, source)  # source statistics, to estimate accuracy by
        weights = mg.Guarded(strategies=(mg.Matcha(),))
        result = mg.adapt(model, target, strategy=weights)
        print(result.summary())
    # The hop weights are a number of the network, which then predicts as the adapted model does.
    loaded.prop.alpha = float(result.gamma)
    loaded.eval()
    before = accuracy(result.probs_before, target, target.test_mask)
    after = accuracy(loaded(target.x, target.edge_index), target, target.test_mask)
    print(f"{name}: accuracy {before:.1%} → {after:.1%}, alpha 0.1 → {float(result.gamma):.3f}\n")
    return before, after


def on_csbm(nodes: int, features: int, epochs: int, seed: int) -> tuple[float, float]:
    source = mg.datasets.csbm(nodes, features, homophily=0.8, seed=seed)
    target = mg.datasets.csbm(nodes, features, homophily=0.2, seed=1000 + seed)
    source.train_mask = target.test_mask = torch.ones(nodes, dtype=torch.bool)
    return adapt_trained_network("CSBM, 0.8 → 0.2", source, target, epochs, seed)


def read_syn_cora(folder: Path, homophily: str) -> Data:
    """One graph of Syn-Cora, its nodes split by a hash of their features.

    All graphs of Syn-Cora deal out the same feature rows: split by node, a row that was labelled
    on the source would be tested on the target.
    """
    import zlib

    import numpy as np
    import scipy.sparse

    with np.load(folder / f"h{homophily}-r1.npz") as file:

        def matrix(part: str) -> scipy.sparse.csr_matrix:
            parts = tuple(file[f"{part}_{name}"] for name in ("data", "indices", "indptr"))
            return scipy.sparse.csr_matrix(parts, file[f"{part}_shape"])

        x, edges, y = matrix("attr").toarray(), matrix("adj").tocoo(), file["labels"]
    labelled = torch.tensor([zlib.crc32(row.tobytes()) % 4 == 0 for row in x])
    return Data(
        x=torch.from_numpy(x).float(),
        edge_index=torch.from_numpy(np.stack([edges.row, edges.col])).long(),
        y=torch.from_numpy(y).long(),
        train_mask=labelled,
        test_mask=~labelled,
    )


def on_syn_cora(folder: Path, epochs: int, seed: int) -> tuple[float, float]:
    """Homophily 0.8 → 0.2; about a quarter of the rows is labelled, the others are tested."""
    source, target = (read_syn_cora(folder, homophily) for homophily in ("0.80", "0.20"))
    return adapt_trained_network("Syn-Cora, 0.8 → 0.2", source, target, epochs, seed)


def main(arguments: list[str] | None = None) -> dict[str, tuple[float, float]]:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--features", type=int, default=500)
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    said = {"csbm": on_csbm(given.nodes, given.features, given.epochs, given.seed)}
    folder = Path(os.environ.get("MATCHA_DATA", "")) / "syn-cora"
    if folder.is_dir():
        said["syn-cora"] = on_syn_cora(folder, given.epochs, given.seed)
    else:
        print("Syn-Cora: set MATCHA_DATA to the folder that holds syn-cora/ to run this part")
    return said


if __name__ == "__main__":
    main()
