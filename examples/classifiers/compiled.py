"""A network in torch.compile is taken as it is.

Run: python examples/classifiers/compiled.py FOLDER
"""

import sys
from pathlib import Path

import torch
from torch.nn.functional import cross_entropy
from torch_geometric.nn import GCN

import matcha_gnn as mg


def main(folder: Path) -> tuple[float, float]:
    source = mg.datasets.csbm(1500, 32, homophily=0.85, signal=1.5, seed=0)
    target = mg.datasets.csbm(1500, 32, homophily=0.2, signal=1.5, seed=1)
    torch.manual_seed(0)
    net = torch.compile(GCN(32, 16, num_layers=2, out_channels=2), backend="eager")
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    for _ in range(60):
        optimizer.zero_grad()
        cross_entropy(net(source.x, source.edge_index)[:750], source.y[:750]).backward()
        optimizer.step()
    summary = mg.summarise_source(net, source, trained=list(range(750)))
    result = mg.adapt(net, target, source=summary)
    result.report(folder / "report.html")
    decided = result.answer({each.node: int(target.y[each.node]) for each in result.ask(20)})
    decided.save(folder / "answer.safetensors")
    fresh = GCN(32, 16, num_layers=2, out_channels=2)
    again = mg.load(folder / "answer.safetensors", network=fresh)
    assert (again(target).argmax(1) == decided.labels).all()
    return tuple(mg.metrics.accuracy(p, target.y) for p in (result.probs_before, decided.probs))


if __name__ == "__main__":
    print("accuracy {:.1%} → {:.1%}".format(*main(Path(sys.argv[1]))))
