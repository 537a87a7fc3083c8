"""Twelve small worlds, and what the default does in each, into tests/worlds.json.

Run: python tests/worlds.py
"""

import json
from pathlib import Path

import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import GAT, GCN, GraphSAGE

import matcha_gnn as mg
from matcha_gnn.metrics import accuracy

RECORD = Path(__file__).with_name("worlds.json")
SIZES = {"num_nodes": 1200, "num_features": 32, "signal": 2.0, "degree": 5.0}
NETWORKS = {"GCN": GCN, "GraphSAGE": GraphSAGE, "GAT": GAT}
SHIFTS = {
    "none": {"homophily": 0.8},
    "homophily 0.2": {"homophily": 0.2},
    "other shares": {"homophily": 0.5, "shares": (0.7, 0.3)},
    "sparser": {"homophily": 0.4, "degree": 1.5},
}


def trained(kind: str, graph: Data) -> nn.Module:
    """A plain network, trained on half of the source."""
    torch.manual_seed(0)
    net = NETWORKS[kind](SIZES["num_features"], 16, num_layers=2, out_channels=2)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    for _ in range(60):
        optimizer.zero_grad()
        logits = net(graph.x, graph.edge_index)[graph.train_mask]
        nn.functional.cross_entropy(logits, graph.y[graph.train_mask]).backward()
        optimizer.step()
    return net.eval()


def outcomes(kind: str) -> dict[str, dict[str, float | str]]:
    """What is true, expected and chosen in every world, in percent."""
    source = mg.datasets.csbm(**SIZES, homophily=0.8, seed=0)
    source.train_mask = torch.arange(SIZES["num_nodes"]) % 2 == 0
    net = trained(kind, source)
    summary = mg.summarise_source(net, source)
    found = {}
    for name, options in SHIFTS.items():
        target = mg.datasets.csbm(**SIZES | options, seed=1)
        result = mg.adapt(net, target, source=summary)
        found[f"{kind}, {name}"] = {
            "chosen": result.chosen,
            "before": 100 * accuracy(result.probs_before, target.y),
            "after": 100 * accuracy(result.probs, target.y),
            "expected": 100 * result.taken.accuracy.value,
            "low": 100 * result.taken.accuracy.low,
            "high": 100 * result.taken.accuracy.high,
        }
    return found


if __name__ == "__main__":
    record = {world: outcome for kind in NETWORKS for world, outcome in outcomes(kind).items()}
    RECORD.write_text(json.dumps(record, indent=1) + "\n")
