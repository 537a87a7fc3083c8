"""Graphs like a source graph, to see what happens where nothing has shifted."""

import torch
from torch import Tensor

from matcha_gnn.graphs.memory import Graph
from matcha_gnn.kernels.sparse import csr_tensor, scipy_csr
from matcha_gnn.streams import Purpose, torch_stream


def resampled(graph: Graph, seed: int) -> Graph:
    """Draw as many nodes with replacement; copies are linked as the nodes they are copies of.

    The bootstrap of exchangeable graphs (Green and Shalizi, 2022): a node has one copy on average,
    so the expected degree of a copy is the degree of its node.

    Args:
        graph: the source.
        seed: of the draw.

    Example:
        >>> import matcha_gnn as mg
        >>> graph = mg.unlabelled(mg.datasets.csbm(2000, 4, degree=6, seed=0))
        >>> drawn = resampled(graph, seed=0)
        >>> drawn.num_nodes, round(drawn.edge_index.shape[1] / graph.edge_index.shape[1], 1)
        (2000, 1.0)
    """
    number, device = graph.num_nodes, graph.device
    generator = torch_stream(seed, Purpose.RESAMPLED_NODES)
    drawn = torch.randint(number, (number,), generator=generator).sort().values.to(device)
    edges, which = _copied_edges(graph.edge_index, drawn, number)
    weight = None if graph.edge_weight is None else graph.edge_weight[which]
    extras = graph.extras.following(graph.edge_index, edges, which).at_nodes(drawn)
    return Graph(_rows(graph.x, drawn), edges, weight, extras)


def _copied_edges(edge_index: Tensor, drawn: Tensor, number: int) -> tuple[Tensor, Tensor]:
    """Edges between copies, [2, E'], and the number of the edge that each is a copy of, [E'].

    Args:
        edge_index: between the nodes, [2, E].
        drawn: the node that each copy is of, in order, [N].
        number: of nodes, N.
    """
    copies = torch.bincount(drawn, minlength=number)
    first = copies.cumsum(0) - copies
    sender, receiver = edge_index
    times = copies[sender] * copies[receiver]
    which = torch.repeat_interleave(times)
    place = torch.arange(len(which), device=drawn.device) - (times.cumsum(0) - times)[which]
    across = copies[receiver][which]
    ends = first[sender][which] + place // across, first[receiver][which] + place % across
    return torch.stack(ends), which


def _rows(x: Tensor, rows: Tensor) -> Tensor:
    if x.layout == torch.strided:
        return x[rows]
    return csr_tensor(scipy_csr(x)[rows.cpu().numpy()], x.dtype).to(x.device)
