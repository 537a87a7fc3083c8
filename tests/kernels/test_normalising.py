"""Normalisation by counting and by sorting: the same matrix, and that of PyG."""

import pytest
import torch
from test_propagate import EDGES, NODES, edges, weights_for

from matcha_gnn.kernels import normalising
from matcha_gnn.kernels.sparse import csr_of

KINDS = ("ones", "weights", "weights with zeros")


def given(name, kind):
    edge_index = edges(name)
    weight = None if kind == "ones" else weights_for(edge_index, zeros=kind.endswith("zeros"))
    return edge_index, NODES, weight


def large(nodes=3_000, entries=20_000, seed=0):
    draw = torch.Generator().manual_seed(seed)
    return torch.randint(0, nodes, (2, entries), generator=draw), nodes


@pytest.mark.parametrize("name", EDGES)
@pytest.mark.parametrize("kind", KINDS)
def test_sorting_and_counting_find_the_same_entries(name, kind):
    counted = normalising.counted_entries(*given(name, kind))
    by_sorting = normalising.sorted_entries(*given(name, kind))
    for one, other in zip(counted, by_sorting, strict=True):
        torch.testing.assert_close(one.double(), other.double(), rtol=1e-15, atol=0)


def test_a_matrix_has_positions_of_one_type():
    """cuSPARSE reads beyond the matrix where row starts are wider than columns."""
    edge_index, nodes = large(50, 200)
    matrix = normalising.normalised_csr(edge_index, nodes, None, torch.float32)
    turned = csr_of(*normalising.sorted_transpose(matrix), (nodes, nodes))
    assert turned.crow_indices().dtype == turned.col_indices().dtype


def test_both_transposes_are_the_transpose():
    edge_index, nodes = large(50, 200)
    matrix = normalising.normalised_csr(edge_index, nodes, None, torch.float64)
    cut = csr_of(matrix.crow_indices()[:31], *_entries(matrix, 30), (30, nodes))
    for way in (normalising.counted_transpose, normalising.sorted_transpose):
        turned = csr_of(*way(cut), (nodes, 30)).to_dense()
        assert torch.equal(turned, cut.to_dense().T)


def _entries(matrix, rows):
    stop = int(matrix.crow_indices()[rows])
    return matrix.col_indices()[:stop], matrix.values()[:stop]
