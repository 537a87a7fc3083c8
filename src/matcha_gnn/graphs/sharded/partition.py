"""Which rank has which node."""

from bisect import bisect_left
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from matcha_gnn.errors import IncompatibleError, InvalidArgumentError, optional_imports

Nodes = NDArray[np.int64]
PARTITIONS = ("contiguous", "metis")


@dataclass(frozen=True, eq=False)
class Partition:
    """Nodes in the order of their ranks, and where each rank's begin.

    Attributes:
        cuts: rank r has the positions cuts[r] to cuts[r+1], [R+1].
        order: the node at each position, ascending inside a rank, [N]; None where positions are
            node numbers.

    Example:
        >>> split = Partition.from_owners(np.array([1, 0, 1]), 2)
        >>> split.nodes(1), split.positions(np.array([2])), split.owners(np.array([0, 2]))
        (array([0, 2]), array([2]), array([0, 1]))
    """

    cuts: Nodes
    order: Nodes | None = None

    @classmethod
    def from_owners(cls, owners: Nodes, ranks: int) -> "Partition":
        """From the rank of each node."""
        counts = np.bincount(owners, minlength=ranks)
        return cls(np.concatenate([[0], np.cumsum(counts)]), np.argsort(owners, kind="stable"))

    @property
    def num_nodes(self) -> int:
        """N."""
        return int(self.cuts[-1])

    def nodes(self, rank: int) -> Nodes:
        """The numbers of a rank's nodes, ascending."""
        first, last = self.cuts[rank : rank + 2]
        return np.arange(first, last) if self.order is None else self.order[first:last]

    def positions(self, nodes: Nodes) -> Nodes:
        """Positions of nodes in the order of ranks."""
        if self.order is None:
            return nodes
        where = np.empty_like(self.order)
        where[self.order] = np.arange(len(where))
        return where[nodes]

    def owners(self, positions: Nodes) -> Nodes:
        """The rank of each position."""
        return np.searchsorted(self.cuts, positions, side="right") - 1


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


def metis(adjacency: scipy.sparse.csr_array, ranks: int) -> Partition:
    """Shards with few edges between them, by METIS; node weights as in `contiguous`.

    Raises:
        MatchaError: pymetis is not installed; `contiguous` needs nothing.
    """
    with optional_imports("partition 'metis'"):
        import pymetis
    check_ranks(adjacency.shape[0], ranks)
    both = (adjacency + adjacency.T).tocsr()
    both.setdiag(0)
    both.eliminate_zeros()
    weights = 1 + np.diff(adjacency.indptr)
    neighbours = pymetis.CSRAdjacency(both.indptr, both.indices)
    _, owners = pymetis.part_graph(ranks, neighbours, vweights=weights.tolist())
    split = Partition.from_owners(np.asarray(owners, dtype=np.int64), ranks)
    if not np.diff(split.cuts).all():
        raise IncompatibleError(
            f"partition: METIS left one of {ranks} ranks without nodes; use 'contiguous'"
        )
    return split


def check_ranks(num_nodes: int, ranks: int) -> None:
    """Raise InvalidArgumentError for more ranks than nodes."""
    if num_nodes < ranks:
        raise InvalidArgumentError("ranks", f"{ranks} for {num_nodes} nodes", "one node per rank")
