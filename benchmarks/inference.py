"""One inference of GPRGNN beside the same network made of PyG's message passing.

`whole` takes features and edges, and normalises the graph; `kept` has the normalised graph already,
as in every call after the first on a `Graph`.

Run: python benchmarks/inference.py [--device cuda] [--full]
"""

import torch
from common import arguments, repeats_for, store
from propagate import WeightedSum
from torch_geometric.nn.conv.gcn_conv import gcn_norm

import matcha_gnn as mg
from matcha_paper.timing import best_seconds

# nodes, features
SHORT = [(5_000, 2_000), (100_000, 128)]
FULL = [*SHORT, (1_000_000, 32), (1_000_000, 128)]


class PlainGPRGNN:
    """The network of `mg.GPRGNN` in evaluation, with its parameters, on PyG's parts."""

    def __init__(self, model: mg.GPRGNN) -> None:
        self.model, self.passing = model, WeightedSum()

    def normalised(self, graph):
        return gcn_norm(graph.edge_index, None, graph.num_nodes, dtype=graph.x.dtype)

    def representation(self, x, edges, weight, gamma):
        h = torch.relu(self.model.norm(self.model.linear(x)))
        z = gamma[0] * h
        for weight_of_hop in gamma[1:]:
            h = self.passing(h, edges, weight)
            z = z + weight_of_hop * h
        return z

    def __call__(self, x, edges, weight):
        return self.model.head(self.representation(x, edges, weight, self.model.gamma))


@torch.no_grad()
def measure(nodes: int, features: int, device: str) -> dict[str, object]:
    graph = mg.datasets.csbm(nodes, features, homophily=0.2, seed=1).to(device)
    model = mg.GPRGNN(features, 2, hidden_channels=32, K=9).frozen().to(device)
    model.gamma.copy_(torch.linspace(0.1, 1, 10))
    plain, view = PlainGPRGNN(model), mg.unlabelled(graph)
    parts = plain.normalised(graph)
    apart = (plain(graph.x, *parts) - model(graph.x, graph.edge_index)).abs().max()
    repeats = max(3, repeats_for(nodes, device) // 5)
    seconds = {
        "ours_whole": lambda: model(graph.x, graph.edge_index),
        "pyg_whole": lambda: plain(graph.x, *plain.normalised(graph)),
        "ours_kept": lambda: model.head(model.representation(view)),
        "pyg_kept": lambda: plain(graph.x, *parts),
    }
    times = {name: best_seconds(work, repeats) for name, work in seconds.items()}
    row = {"nodes": nodes, "features": features, "largest_difference": float(apart)}
    row |= {f"{name}_ms": 1e3 * value for name, value in times.items()}
    row |= {
        "faster_than_pyg_whole": times["pyg_whole"] / times["ours_whole"],
        "faster_than_pyg_kept": times["pyg_kept"] / times["ours_kept"],
    }
    print(row, flush=True)
    return row


def main() -> None:
    args = arguments(__doc__).parse_args()
    shapes = FULL if args.full else SHORT
    store("inference", args, {"shapes": [measure(*shape, args.device) for shape in shapes]})


if __name__ == "__main__":
    main()
