"""Changes of a source graph's edges on which estimates are tried, its labels known."""

from collections.abc import Iterator

import torch
from torch import Tensor

from matcha_gnn.graphs.memory import Graph
from matcha_gnn.streams import Purpose, torch_stream

DROPPED, REWIRED, APART = 0.5, 0.5, 0.75
"""Share of edges that are dropped; that get another end; of those inside a class that are
dropped."""


def simulated_shifts(graph: Graph, labels: Tensor, labelled: Tensor, seed: int) -> Iterator[Graph]:
    """The graph as it is, half of its edges dropped, half rewired, and fewer inside classes.

    Both directions of an edge share its fate.

    Args:
        graph: the source.
        labels: classes, [N]; read at labelled nodes only.
        labelled: bool [N].
        seed: of the draws.

    Yields:
        Four graphs with the same nodes.
    """
    edges, number = graph.edge_index, graph.num_nodes
    low, high = edges.amin(0), edges.amax(0)
    pairs, which = torch.unique(low * number + high, return_inverse=True)
    generator = torch_stream(seed, Purpose.SIMULATED_SHIFTS)

    def chance() -> Tensor:
        return torch.rand(len(pairs), generator=generator).to(edges.device)

    yield graph
    yield graph.at_edges((chance() >= DROPPED)[which])
    other = torch.randint(number, (len(pairs),), generator=generator).to(edges.device)
    moved = (chance() < REWIRED)[which]
    # The end with the larger number moves, for both directions of an edge.
    yield graph.with_ends(torch.where(moved & (edges == high), other[which], edges))
    first, second = pairs // number, pairs % number
    inside = labelled[first] & labelled[second] & (labels[first] == labels[second])
    yield graph.at_edges(~(inside & (chance() < APART))[which])
