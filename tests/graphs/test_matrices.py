"""Sparse matrices of a graph's edges follow them."""

from typing import NamedTuple

import pytest
import torch
from torch_geometric.data import Data

import matcha_gnn as mg
from matcha_gnn.graphs.matrices import entries_of, followed, is_matrix, matrix_of

EDGES = torch.tensor([[0, 1, 1, 2, 3], [1, 0, 2, 3, 3]])
WEIGHTS = torch.arange(1.0, 6.0)


class Like(NamedTuple):
    """As much of `SparseTensor` as is used."""

    row: torch.Tensor
    col: torch.Tensor
    value: torch.Tensor | None
    sparse_sizes_: tuple[int, int]

    def coo(self):
        return self.row, self.col, self.value

    def sparse_sizes(self):
        return self.sparse_sizes_

    def size(self, dim):
        return self.sparse_sizes_[dim]


class SparseLike(Like):
    def __new__(cls, row, col, value, sparse_sizes):
        return super().__new__(cls, row, col, value, sparse_sizes)


def matrices():
    csr = matrix_of(EDGES, 4, WEIGHTS)
    coo = csr.to_sparse_coo()
    row, col, value = entries_of(csr)
    yield csr
    yield coo
    yield coo.to_sparse_csc()
    yield SparseLike(row, col, value, (4, 4))


def dense(matrix):
    if isinstance(matrix, torch.Tensor):
        return matrix.to_dense()
    full = torch.zeros(matrix.sparse_sizes())
    return full.index_put((matrix.row, matrix.col), matrix.value, accumulate=True)


@pytest.mark.parametrize("number", range(4))
def test_entries_follow_edges_that_are_taken_away_or_moved(number):
    matrix = list(matrices())[number]
    assert is_matrix(matrix, 4)
    assert not is_matrix(matrix, 5)
    kept = torch.tensor([3, 0])
    found = followed(matrix, EDGES, EDGES[:, kept], kept)
    assert type(found) is type(matrix)
    assert torch.equal(dense(found), matrix_of(EDGES[:, kept], 4, WEIGHTS[kept]).to_dense())
    moved = EDGES.clone()
    moved[1, 2] = 3
    found = followed(matrix, EDGES, moved, torch.arange(5))
    assert torch.equal(dense(found), matrix_of(moved, 4, WEIGHTS).to_dense())
    none = torch.zeros(0, dtype=torch.long)
    assert dense(followed(matrix, EDGES, EDGES[:, none], none)).abs().sum() == 0


def test_a_matrix_whose_rows_send_is_recognised():
    matrix = matrix_of(EDGES.flip(0), 4, WEIGHTS)
    kept = torch.tensor([2])
    found = followed(matrix, EDGES, EDGES[:, kept], kept)
    assert found.to_dense()[1, 2] == 3
    assert found.to_dense().sum() == 3


def test_loops_that_are_no_edges_stay():
    apart = EDGES[:, :4]
    loops = torch.arange(4).repeat(2, 1)
    matrix = matrix_of(torch.cat([apart, loops], 1), 4, torch.ones(8) / 2)
    kept = torch.tensor([1])
    found = followed(matrix, apart, apart[:, kept], kept).to_dense()
    assert torch.equal(found.diagonal(), torch.full((4,), 0.5))
    assert found.sum() == 2.5
    assert found[0, 1] == 0.5


def test_an_edge_that_is_listed_twice_has_one_entry():
    twice = torch.cat([EDGES, EDGES[:, :1]], 1)
    matrix = matrix_of(EDGES, 4, WEIGHTS)
    kept = torch.tensor([0, 5])
    assert followed(matrix, twice, twice[:, kept], kept).to_dense().sum() == 1


def test_other_edges_are_not_taken_for_these():
    matrix = matrix_of(EDGES[:, :3], 4, WEIGHTS[:3])
    assert followed(matrix, EDGES, EDGES, torch.arange(5)) is None


def sparse(layout, index):
    """A sparse 3 × 3 matrix with one entry whose index is wrong, made without checks."""
    one, starts = torch.ones(1), torch.tensor([0, 1, 1, 1])
    if layout == torch.sparse_coo:
        places = torch.tensor([[0], [index]])
        return torch.sparse_coo_tensor(places, one, (3, 3), check_invariants=False)
    return torch.sparse_compressed_tensor(
        starts, torch.tensor([index]), one, (3, 3), layout=layout, check_invariants=False
    )


@pytest.mark.parametrize("index", [-1, 3, 10**12])
@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr, torch.sparse_csc])
@pytest.mark.parametrize("field", ["x", "adj_t", "other"])
def test_indices_outside_of_a_sparse_tensor_are_refused_before_use(layout, index, field):
    given = {"x": torch.ones(3, 2), "edge_index": torch.tensor([[0], [1]])}
    given |= {field: sparse(layout, index)}
    if field == "adj_t":
        del given["edge_index"]
    with pytest.raises(mg.InvalidGraphError, match=rf"graph.{field}: got the index {index}"):
        mg.adapt(mg.GPRGNN(3, 2), Data(**given))


@pytest.mark.parametrize("starts", [[0, 1, 0, 1], [1, 1, 1, 1], [0, 1, 1, 10**9], [0, 1]])
def test_row_starts_that_lie_elsewhere_are_refused_before_use(starts):
    x = torch.sparse_csr_tensor(
        torch.tensor(starts), torch.tensor([0]), torch.ones(1), (3, 3), check_invariants=False
    )
    with pytest.raises(mg.InvalidGraphError, match=r"graph.x: got other row starts"):
        mg.adapt(mg.GPRGNN(3, 2), Data(x=x, edge_index=torch.tensor([[0], [1]])))
