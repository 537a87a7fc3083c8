"""One rank's shard of a target graph."""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from matcha_gnn.graphs.base import imbalance
from matcha_gnn.graphs.memory import Graph, LocalGraph
from matcha_gnn.graphs.sharded.halo import Columns, Halo, ShardAdjacency
from matcha_gnn.graphs.sharded.partition import Nodes, Partition, contiguous
from matcha_gnn.graphs.sharded.ranks import Ranks
from matcha_gnn.graphs.shards import Shard
from matcha_gnn.kernels import Adjacency
from matcha_gnn.kernels.links import Links, Message
from matcha_gnn.kernels.sparse import csr_tensor, scipy_csr
from matcha_gnn.typing import FloatArray

LINKS, LINKS_SEED = 20_000, 0


class RankShard(Shard):
    """The nodes of one rank.

    Args:
        ranks: of the run.
        partition: which rank has which node.
    """

    def __init__(self, ranks: Ranks, partition: Partition) -> None:
        self.ranks, self.partition = ranks, partition
        self.is_first = ranks.rank == 0
        self.start, self.stop = (int(cut) for cut in partition.cuts[ranks.rank : ranks.rank + 2])

    @property
    def nodes(self) -> Nodes:
        """The numbers of this rank's nodes in the whole graph."""
        return self.partition.nodes(self.ranks.rank)

    def total(self, *sums: FloatArray | float) -> list[FloatArray]:
        """Sums over all shards of sums over this shard; one exchange for all of them."""
        return self.ranks.total(*sums)

    def count(self, num_nodes: int) -> int:
        """All nodes; needs no exchange."""
        return self.partition.num_nodes

    def gather(self, rows: Tensor) -> Tensor:
        """The rows of all ranks, one rank after the other; for few rows."""
        return self.ranks.gather(rows)

    def rows(self, values: Tensor, numbers: Tensor) -> Tensor:
        """Rows of node values at positions of the whole graph; for few positions."""
        here = (numbers >= self.start) & (numbers < self.stop)
        found = values.new_zeros(len(numbers), *values.shape[1:], dtype=torch.float64)
        found[here] = values[numbers[here] - self.start].double()
        (whole,) = self.total(found.cpu().numpy())
        return torch.from_numpy(whole).to(values)

    def kth_lowest(self, values: Tensor, k: int) -> float:
        """The k-th lowest of all ranks' values, from the k lowest, or highest, of each."""
        in_all = sum(self.ranks.counts(len(values)))
        from_above = in_all - k + 1
        lowest = k <= from_above
        most = min(len(values), k if lowest else from_above)
        candidates = self.gather(values.topk(most, largest=not lowest).values)
        return float(candidates.kthvalue(k if lowest else len(candidates) - from_above + 1).values)

    def before(self, count: int) -> int:
        """The sum of the counts of the ranks before this one."""
        return sum(self.ranks.counts(count)[: self.ranks.rank])


@dataclass(frozen=True, eq=False)
class GraphShard(LocalGraph):
    """The nodes of one rank, with their incoming edges.

    Attributes:
        x: features of this rank's nodes, [n, F].
        edge_index: their incoming edges, [2, E_r]; senders are numbered as the columns of the
            adjacency: this rank's nodes, then those needed from other ranks.
        shard: the shard of these nodes.
        adjacency: this rank's rows of P.
        links: a sample of edges between different nodes of the whole graph, by position.
        both_ways: every edge of the whole graph has its reverse.
    """

    shard: RankShard = field(kw_only=True)
    own_adjacency: ShardAdjacency = field(kw_only=True)
    links: Tensor = field(kw_only=True)
    both_ways: bool = field(kw_only=True)

    @property
    def adjacency(self) -> ShardAdjacency:
        """This rank's rows of P; a product exchanges rows with other ranks."""
        return self.own_adjacency

    def sample_links(self, most: int, seed: int) -> Tensor:
        """The links that were drawn when the graph was sharded."""
        return self.links

    def message_sums(self, message: Message, sent: Tensor, received: Tensor) -> Tensor:
        """See `BaseGraph.message_sums`."""
        return super().message_sums(message, self.own_adjacency.halo.extended(sent), received)

    def neighbour_sums(self, values: Tensor) -> Tensor:
        """See `BaseGraph.neighbour_sums`."""
        return super().neighbour_sums(self.own_adjacency.halo.extended(values))

    def _sorted_links(self) -> Links:
        known = self.num_nodes + self.own_adjacency.halo.size
        return Links.of(self.edge_index, self.num_nodes, known)

    @property
    def reciprocal(self) -> bool:
        """Whether every edge of the whole graph has its reverse."""
        return self.both_ways


class Rows(NamedTuple):
    """The rows of a graph that a rank reads.

    Attributes:
        matrix: rows of P of this rank's nodes, [n, N].
        x: their features, [n, F].
        edges: their incoming edges, [2, E_r].
        links: a sample of edges between different nodes of the whole graph, [2, E'].
    """

    matrix: scipy.sparse.csr_array
    x: Tensor
    edges: Nodes
    links: Nodes


def assembled(shard: RankShard, rows: Rows) -> GraphShard:
    """Build a rank's shard; the ranks exchange which rows they need."""
    columns = Columns.of(rows.matrix.indices.astype(np.int64), shard.start, shard.stop)
    halo = Halo.around(columns.needed, shard.partition, shard.ranks)
    matrix = csr_tensor(columns.renumbered(rows.matrix), rows.x.dtype)
    device = shard.ranks.device
    return GraphShard(
        rows.x.to(device),
        torch.from_numpy(columns.numbers(rows.edges)).to(device),
        shard=shard,
        own_adjacency=ShardAdjacency(Adjacency(matrix.to(device)), halo),
        links=torch.from_numpy(rows.links).to(device),
        both_ways=_both_ways(rows.edges, shard.ranks),
    )


def _both_ways(edges: Nodes, ranks: Ranks) -> bool:
    """Whether every edge of the whole graph has its reverse, from each rank's incoming edges."""
    here = imbalance(*torch.from_numpy(edges)) % 2**64
    # Halves of a 64-bit number are added up exactly in float64.
    high, low = (int(half) for half in ranks.total(float(here >> 32), float(here % 2**32)))
    return ((high << 32) + low) % 2**64 == 0


def shard_of(graph: Graph, ranks: Ranks) -> GraphShard:
    """This rank's shard of a graph that every rank has in memory.

    Args:
        graph: the whole target, the same on all ranks.
        ranks: of the run.
    """
    with ranks.agreeing("sharding the graph"):
        matrix = scipy_csr(graph.adjacency.matrix)
        partition = contiguous(matrix.indptr, ranks.size)
    shard = RankShard(ranks, partition)
    rows = scipy.sparse.csr_array(matrix[shard.start : shard.stop])
    edges = graph.edge_index.cpu().numpy()
    ends_here = (edges[1] >= shard.start) & (edges[1] < shard.stop)
    links = graph.sample_links(LINKS, LINKS_SEED).cpu().numpy()
    x = _taken(graph.x, shard.nodes)
    return assembled(shard, Rows(rows, x, edges[:, ends_here], links))


def _taken(x: Tensor, nodes: Nodes) -> Tensor:
    """Rows of dense or sparse features."""
    if x.layout == torch.strided:
        return x[torch.from_numpy(nodes).to(x.device)]
    return csr_tensor(scipy.sparse.csr_array(scipy_csr(x)[nodes]), x.dtype)
