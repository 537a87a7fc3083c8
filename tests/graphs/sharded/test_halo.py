"""Sparse products over ranks against the whole matrix, and what they cost."""

import numpy as np
import pytest
import scipy.sparse
import torch
from spawning import run_ranks

from matcha_gnn.errors import InvalidArgumentError
from matcha_gnn.graphs.sharded.halo import Columns, Halo, ShardAdjacency
from matcha_gnn.graphs.sharded.partition import Partition, contiguous
from matcha_gnn.graphs.sharded.ranks import Ranks
from matcha_gnn.kernels import Adjacency
from matcha_gnn.kernels.sparse import csr_tensor

NODES, WIDTH = 23, 3


def directed_matrix():
    draw = np.random.default_rng(0)
    matrix = scipy.sparse.random_array((NODES, NODES), density=0.15, rng=draw, format="csr")
    row, column = matrix.nonzero()
    matrix.data[(row == 5) | (column == 5)] = 0
    matrix.eliminate_zeros()
    return matrix


def products(rank, cuts):
    ranks, matrix = Ranks(), directed_matrix()
    partition = Partition(np.array(cuts))
    rows = scipy.sparse.csr_array(matrix[slice(*partition.cuts[rank : rank + 2])])
    columns = Columns.of(rows.indices, *partition.cuts[rank : rank + 2])
    halo = Halo.around(columns.needed.astype(np.int64), partition, ranks)
    local = Adjacency(csr_tensor(columns.renumbered(rows), torch.float64))
    part = ShardAdjacency(local, halo)
    nodes = partition.nodes(rank)
    h = torch.randn(NODES, WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    ranks.sent.clear()
    forth = part @ h[nodes]
    bytes_forth = ranks.sent["halo"]
    back = part.transposed @ h[nodes]
    column = part @ h[nodes, 0]
    return nodes, forth, back, column, bytes_forth, sum(part.halo.to) - part.halo.to[rank]


SPLITS = {
    "one rank": [0, NODES],
    "two ranks": [0, 11, NODES],
    "four ranks": [0, 4, 12, 17, NODES],
    "a rank with one isolated node": [0, 5, 6, NODES],
}


@pytest.mark.parametrize("name", SPLITS)
def test_products_over_ranks_equal_those_with_the_whole_matrix(name):
    cuts = SPLITS[name]
    matrix = directed_matrix().toarray()
    h = torch.randn(NODES, WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    seen = []
    for nodes, forth, back, column, sent, rows in run_ranks(len(cuts) - 1, products, cuts):
        seen.extend(nodes)
        np.testing.assert_allclose(forth, (matrix @ h.numpy())[nodes], atol=1e-12)
        np.testing.assert_allclose(back, (matrix.T @ h.numpy())[nodes], atol=1e-12)
        np.testing.assert_allclose(column, (matrix @ h[:, 0].numpy())[nodes], atol=1e-12)
        assert sent == rows * WIDTH * 8
    assert sorted(seen) == list(range(NODES))


def test_only_columns_from_elsewhere_are_needed():
    matrix = directed_matrix()
    split = contiguous(matrix.indptr, 3)
    for rank in range(3):
        first, last = split.cuts[rank : rank + 2]
        columns = Columns.of(matrix[first:last].indices, first, last)
        assert not ((columns.needed >= first) & (columns.needed < last)).any()
        again = np.zeros((last - first, NODES))
        positions = np.concatenate([np.arange(first, last), columns.needed])
        again[:, positions] = columns.renumbered(matrix[first:last]).toarray()
        np.testing.assert_array_equal(again, matrix[first:last].toarray())


def test_ranges_share_nodes_and_edges_evenly_and_no_rank_is_empty():
    degrees = np.ones(1000, dtype=int)
    degrees[:10] = 100
    starts = np.concatenate([[0], np.cumsum(degrees)])
    cuts = contiguous(starts, 4).cuts
    work = np.diff(starts[cuts] + cuts)
    assert work.max() - work.min() <= 2 * 101
    one_hub = np.array([0, 1000, 1001, 1002, 1003])
    np.testing.assert_array_equal(contiguous(one_hub, 4).cuts, [0, 1, 2, 3, 4])


def test_more_ranks_than_nodes_are_refused():
    with pytest.raises(InvalidArgumentError, match="3 for 2 nodes"):
        contiguous(np.array([0, 1, 2]), 3)


def test_matrices_that_are_not_square_have_large_products():
    draw = np.random.default_rng(0)
    rows, columns = draw.integers(0, 50_000, 100_000), draw.integers(0, 60_000, 100_000)
    entries = draw.normal(size=100_000).astype(np.float32)
    matrix = scipy.sparse.csr_array((entries, (rows, columns)), shape=(50_000, 60_000))
    local = Adjacency(csr_tensor(matrix, torch.float32))
    for adjacency, plain in ((local, matrix), (local.transposed, matrix.T)):
        h = draw.normal(size=(plain.shape[1], 32)).astype(np.float32)
        np.testing.assert_allclose(adjacency @ torch.from_numpy(h), plain @ h, atol=1e-4)
