"""K hops of a sparse product written node by node, beside torch, SciPy and PyG message passing.

The graph is random, with five edges and a self loop a node, normalised beforehand for everybody.
Every way ends with the same stack [N, K+1, D]. The bound counts, for a hop, one read and one write
of a hop and one read of the matrix: as if no row of a neighbour had to be fetched twice.

Run: python benchmarks/propagate.py [--device cuda] [--full]
"""

from collections.abc import Callable

import scipy.sparse
import torch
from common import arguments, copy_bandwidth, repeats_for, store
from torch_geometric.nn import MessagePassing

from matcha_gnn.kernels import Adjacency, propagate
from matcha_paper.timing import best_seconds

EDGES = 5
# nodes, width, hops
SHORT = [
    (5_000, 32, 9),
    (20_000, 32, 9),
    (100_000, 32, 9),
    (100_000, 8, 9),
    (100_000, 128, 5),
    (1_000_000, 32, 3),
]
FULL = [*SHORT, (1_000_000, 32, 9), (10_000_000, 8, 3), (10_000_000, 32, 3)]


class WeightedSum(MessagePassing):
    def __init__(self) -> None:
        super().__init__(aggr="add")

    def forward(self, x, edge_index, edge_weight):
        return self.propagate(edge_index, x=x, edge_weight=edge_weight)

    def message(self, x_j, edge_weight):
        return edge_weight[:, None] * x_j


def stacked(h: torch.Tensor, hops: int, step: Callable[[torch.Tensor], torch.Tensor]) -> None:
    stack = torch.empty(len(h), hops + 1, h.shape[1], device=h.device)
    stack[:, 0] = h
    for k in range(1, hops + 1):
        h = step(h)
        stack[:, k] = h


def ways(adjacency: Adjacency, device: str) -> dict[str, Callable[[torch.Tensor], torch.Tensor]]:
    matrix, passing = adjacency.matrix, WeightedSum()
    crow, col, values = matrix.crow_indices(), matrix.col_indices(), matrix.values()
    receiver = torch.repeat_interleave(torch.arange(len(crow) - 1, device=device), crow.diff())
    edges = torch.stack([col, receiver])
    steps = {"torch": lambda h: matrix @ h, "pyg": lambda h: passing(h, edges, values)}
    if device == "cpu":
        parts = tuple(t.numpy() for t in (values, col, crow))
        csr = scipy.sparse.csr_array(parts, shape=tuple(matrix.shape))
        steps["scipy"] = lambda h: torch.from_numpy(csr @ h.numpy())
    return steps


def measure(nodes: int, width: int, hops: int, device: str, bandwidth: float) -> dict[str, object]:
    generator = torch.Generator().manual_seed(0)
    edges = torch.randint(0, nodes, (2, EDGES * nodes), generator=generator).to(device)
    adjacency = Adjacency.normalised(edges, nodes, None, torch.float32)
    h, repeats = torch.randn(nodes, width, device=device), max(2, repeats_for(nodes, device) // 3)
    seconds = {"ours": best_seconds(lambda: propagate(adjacency, h, hops), repeats)}
    for name, step in ways(adjacency, device).items():
        seconds[name] = best_seconds(lambda step=step: stacked(h, hops, step), max(2, repeats // 2))
    size = hops * (8 * nodes * width + 12 * adjacency.matrix.values().numel())
    others = [value for name, value in seconds.items() if name != "ours"]
    row = {"nodes": nodes, "width": width, "hops": hops}
    row |= {f"{name}_ms": 1e3 * value for name, value in seconds.items()}
    row |= {
        "bound_ms": 1e3 * size / bandwidth,
        "faster_than_the_best_other": min(others) / seconds["ours"],
        "faster_than_pyg": seconds["pyg"] / seconds["ours"],
    }
    print(row, flush=True)
    return row


def main() -> None:
    args = arguments(__doc__).parse_args()
    shapes = [
        shape
        for shape in (FULL if args.full else SHORT)
        # The messages of PyG are as large as a stack of as many hops as a node has edges.
        if 4e-9 * shape[0] * shape[1] * (shape[2] + 3 + 2 * EDGES) <= args.max_gb
    ]
    bandwidth = copy_bandwidth(args.device)
    rows = [measure(*shape, args.device, bandwidth) for shape in shapes]
    store("propagate", args, {"shapes": rows})


if __name__ == "__main__":
    main()
