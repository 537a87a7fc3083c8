"""Sparse products over ranks: each rank fetches the rows of other ranks that it needs."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from matcha_gnn.graphs.sharded.partition import Nodes, Partition
from matcha_gnn.graphs.sharded.ranks import Ranks
from matcha_gnn.kernels import Adjacency, Operator
from matcha_gnn.typing import Repr


@dataclass(frozen=True, eq=False)
class Halo:
    """Which rows each rank sends to which; the same in every exchange.

    Attributes:
        ranks: of the run.
        given: rows of this rank that others need, ordered by the rank that needs them.
        to: how many of them each rank gets.
        of: how many rows come from each rank.
    """

    ranks: Ranks
    given: Tensor
    to: list[int]
    of: list[int]

    @classmethod
    def around(cls, needed: Nodes, partition: Partition, ranks: Ranks) -> "Halo":
        """Request the rows of other ranks that are needed here.

        Args:
            needed: positions of other ranks' nodes, ascending.
            partition: which rank has which position.
            ranks: of the run.
        """
        of = np.bincount(partition.owners(needed), minlength=ranks.size).tolist()
        counts = torch.tensor(of, device=ranks.device)
        ones = [1] * ranks.size
        to = ranks.exchange(counts, ones, ones, purpose="halo plan").tolist()
        wanted = torch.from_numpy(needed).to(ranks.device)
        given = ranks.exchange(wanted, of, to, purpose="halo plan")
        return cls(ranks, given - int(partition.cuts[ranks.rank]), to, of)

    @property
    def size(self) -> int:
        """Number of rows from other ranks."""
        return sum(self.of)

    def extended(self, h: Repr) -> Repr:
        """Rows of this rank [n, …] followed by the rows from other ranks [H, …]."""
        if self.ranks.size == 1:
            return h
        return torch.cat([h, self.ranks.exchange(h[self.given], self.to, self.of)])

    def returned(self, extended: Repr) -> Repr:
        """The transpose of `extended`: values of other ranks' rows are added there, [n, …].

        Args:
            extended: [n + H, …]; its first rows are changed in place.
        """
        if self.ranks.size == 1:
            return extended
        here = extended[: len(extended) - self.size]
        back = self.ranks.exchange(extended[len(here) :], self.of, self.to)
        return here.index_add_(0, self.given, back)


@dataclass(frozen=True, eq=False)
class ShardAdjacency(Operator):
    """This rank's rows of P; maps this rank's rows of h to those of P h.

    Attributes:
        local: [n, n + H]: columns are the nodes of this rank, then those of other ranks.
        halo: fetches the rows of other ranks.
    """

    local: Adjacency
    halo: Halo

    def to(self, dtype: torch.dtype) -> "ShardAdjacency":
        """The same matrix in another precision."""
        return ShardAdjacency(self.local.to(dtype), self.halo)

    def __matmul__(self, h: Repr) -> Repr:
        """This rank's rows of P h."""
        return self.local @ self.halo.extended(h)

    @cached_property
    def transposed(self) -> "ShardTranspose":
        """Pᵀ: values of other ranks' nodes are sent to them; as many bytes as for P."""
        return ShardTranspose(self, self.local.transposed)


@dataclass(frozen=True, eq=False)
class ShardTranspose(Operator):
    """This rank's rows of Pᵀ.

    Attributes:
        straight: this rank's rows of P.
        local: their transpose, [n + H, n].
    """

    straight: ShardAdjacency
    local: Adjacency

    def __matmul__(self, h: Repr) -> Repr:
        """This rank's rows of Pᵀ h."""
        return self.straight.halo.returned(self.local @ h)

    @property
    def transposed(self) -> ShardAdjacency:
        """P."""
        return self.straight


@dataclass(frozen=True, eq=False)
class Columns:
    """Column numbers of positions on one rank: its nodes first, then those of other ranks.

    Attributes:
        first: position of this rank's first node.
        last: the position after its last one.
        needed: positions of other ranks' nodes, ascending.
    """

    first: int
    last: int
    needed: Nodes

    @classmethod
    def of(cls, positions: Nodes, first: int, last: int) -> "Columns":
        """This rank's nodes, and all others that occur."""
        return cls(first, last, np.unique(positions[(positions < first) | (positions >= last)]))

    def __len__(self) -> int:
        return self.last - self.first + len(self.needed)

    def numbers(self, positions: Nodes) -> Nodes:
        """From positions to numbers on this rank.

        Example:
            >>> Columns.of(np.array([2, 3, 7, 0]), 2, 4).numbers(np.array([2, 3, 7, 0]))
            array([0, 1, 3, 2])
        """
        here = (positions >= self.first) & (positions < self.last)
        elsewhere = self.last - self.first + np.searchsorted(self.needed, positions)
        return np.where(here, positions - self.first, elsewhere)

    def renumbered(self, rows: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
        """Rows of a matrix with a column for each position, [n, N], as [n, n + H]."""
        columns = self.numbers(rows.indices.astype(np.int64))
        arrays, shape = (rows.data, columns, rows.indptr), (rows.shape[0], len(self))
        local = scipy.sparse.csr_array(arrays, shape=shape)
        local.sum_duplicates()
        return local
