"""What adaptation asks of a target graph, wherever its nodes lie.

A graph in memory is one piece and has all nodes. One that is streamed from a folder gives its nodes
piece by piece; a rank of a cluster has a part of the nodes, and takes hops by exchanging rows.
"""

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import torch
from torch import Tensor

from matcha_gnn.parts import WHOLE, Part

EDGE_BLOCK = 1 << 20


class Target:
    """The base of every graph that a model can be adapted to.

    Attributes:
        part: which nodes are here.
        one_piece: all nodes that are here are in memory at once.
        make_hops: makes a model's hops on this graph where the model itself cannot; called with
            the model, it returns `Hops`.
        most_columns: numbers a node that may be propagated at a time.
    """

    x: Tensor
    edge_index: Tensor
    part: Part = WHOLE
    one_piece: ClassVar[bool] = True
    make_hops: Callable[[Any], Any] | None = None
    most_columns: int = 1 << 30

    @property
    def device(self) -> torch.device:
        """Where work on the graph is done."""
        return self.x.device

    def pieces(self) -> Iterator[tuple[slice, Any]]:
        """Rows, and a graph of these nodes by themselves: edges are not to be looked at."""
        yield slice(0, self.x.shape[0]), self

    def sample_links(self, most: int, seed: int) -> Tensor:
        """At most so many edges between different nodes, numbered in the whole graph, [2, E']."""
        edges = self.edge_index
        links = edges[:, edges[0] != edges[1]]
        if links.shape[1] <= most:
            return links
        generator = torch.Generator().manual_seed(seed)
        drawn = torch.randint(links.shape[1], (most,), generator=generator)
        return links[:, drawn.to(links.device)]

    def neighbour_sums(self, values: Tensor) -> Tensor:
        """Σ over the incoming edges of each node of the sender's row of values [N, C]: [N, C].

        An edge from a node to itself adds nothing.
        """
        total = torch.zeros_like(values)
        for sender, receiver in torch.split(self.edge_index, EDGE_BLOCK, 1):
            apart = sender != receiver
            total.index_add_(0, receiver[apart], values[sender[apart]])
        return total
