"""Which rank has which node."""

from bisect import bisect_left
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matcha_gnn.errors import InvalidArgumentError

Nodes = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Partition:
    """Which range of nodes each rank has.

    Attributes:
        cuts: rank r has the nodes cuts[r] to cuts[r+1], [R+1].

    Example:
        >>> split = Partition(np.array([0, 1, 3]))
        >>> split.nodes(1), split.owners(np.array([0, 2]))
        (array([1, 2]), array([0, 1]))
    """

    cuts: Nodes

    @property
    def num_nodes(self) -> int:
        """N."""
        return int(self.cuts[-1])

    def nodes(self, rank: int) -> Nodes:
        """The numbers of a rank's nodes, ascending."""
        first, last = self.cuts[rank : rank + 2]
        return np.arange(first, last)

    def owners(self, nodes: Nodes) -> Nodes:
        """The rank of each node."""
        return np.searchsorted(self.cuts, nodes, side="right") - 1


def contiguous(row_starts: NDArray[np.integer[Any]], ranks: int) -> Partition:
    """Ranges of nodes with about equally many nodes and edges together.

    Args:
        row_starts: of the adjacency's rows, [N+1]; of a file only a few numbers are read.
        ranks: number of shards.

    Example:
        >>> contiguous(np.array([0, 6, 7, 8, 9]), 2).cuts
        array([0, 1, 4])
    """
    num_nodes = len(row_starts) - 1
    check_ranks(num_nodes, ranks)

    def work(node: int) -> int:
        return int(row_starts[node]) + node

    shares = [work(num_nodes) * rank / ranks for rank in range(ranks + 1)]
    cuts = np.array([bisect_left(range(num_nodes + 1), share, key=work) for share in shares])
    # Every rank gets at least one node.
    each = np.arange(ranks + 1)
    cuts = np.maximum.accumulate(cuts - each) + each
    return Partition(np.minimum(cuts, num_nodes - ranks + each))


def check_ranks(num_nodes: int, ranks: int) -> None:
    """Raise InvalidArgumentError for more ranks than nodes."""
    if num_nodes < ranks:
        raise InvalidArgumentError("ranks", f"{ranks} for {num_nodes} nodes", "one node per rank")
