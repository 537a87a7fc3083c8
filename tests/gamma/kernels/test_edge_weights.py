"""The filter's gradient in raw edge weights against dense algebra, PyG and finite differences."""

import sys

import pytest
import torch
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from matcha_gnn.gamma.kernels.edge_weights import EdgePattern, weighted_filter
from matcha_gnn.kernels import Adjacency

NODES, HOPS, WIDTH = 7, 4, 3
EDGES = {
    "undirected": [[0, 1, 1, 2, 2, 3, 3, 0, 4, 5], [1, 0, 2, 1, 3, 2, 0, 3, 5, 4]],
    "directed": [[0, 0, 0, 1, 2, 3, 5, 6], [1, 2, 3, 4, 5, 6, 0, 0]],
    "self loops": [[0, 1, 2, 2, 5, 3], [0, 2, 1, 2, 5, 4]],
    "repeated": [[0, 0, 0, 1, 3, 3, 2, 2], [1, 1, 1, 0, 4, 4, 2, 2]],
    "a hub": [[0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6, 0, 0, 0, 0, 0, 0]],
    "no edges": [[], []],
}


def pattern_of(name, weight=None, dtype=torch.float64):
    return EdgePattern.of(torch.tensor(EDGES[name], dtype=torch.int64), NODES, weight, dtype)


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def inside(pattern, seed=3):
    """Weights in (0, 1), other in each direction of an edge."""
    drawn = torch.rand(len(pattern.row), generator=torch.Generator().manual_seed(seed))
    return (0.05 + 0.9 * drawn).double()


def dense_filter(pattern, weight, h, hop_weights):
    """The same from an N by N matrix, by plain autograd."""
    matrix = h.new_zeros(NODES, NODES).index_put((pattern.row, pattern.col), weight)
    degree = matrix.sum(1)
    matrix = matrix / (degree[:, None] * degree[None, :]).sqrt()
    return sum(c * torch.linalg.matrix_power(matrix, k) @ h for k, c in enumerate(hop_weights))


@pytest.mark.parametrize("name", EDGES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_normalised_pattern_is_the_adjacency(name, dtype):
    edges = torch.tensor(EDGES[name], dtype=torch.int64)
    for weight in (None, torch.rand(edges.shape[1], generator=torch.Generator().manual_seed(0))):
        pattern = EdgePattern.of(edges, NODES, weight, dtype)
        ours = pattern.matrix(pattern.normalise(pattern.weight)[0]).to_dense()
        expected = Adjacency.normalised(edges, NODES, weight, dtype).matrix.to_dense()
        torch.testing.assert_close(ours, expected, rtol=1e-6, atol=0)


@pytest.mark.parametrize("name", EDGES)
def test_degrees_follow_the_weights_as_in_pyg(name):
    pattern = pattern_of(name)
    weight = inside(pattern)
    index, value = gcn_norm(torch.stack([pattern.col, pattern.row]), weight, NODES)
    expected = torch.zeros(NODES, NODES).double().index_put((index[1], index[0]), value)
    ours = pattern.matrix(pattern.normalise(weight)[0]).to_dense()
    torch.testing.assert_close(ours, expected)


# The filter


@pytest.mark.parametrize("name", EDGES)
@pytest.mark.parametrize("hops", [0, 1, HOPS])
def test_value_and_gradients_equal_plain_autograd_on_the_dense_matrix(name, hops):
    pattern = pattern_of(name)
    given = inside(pattern), draw(NODES, WIDTH), draw(hops + 1, seed=1)
    bend, results = draw(NODES, WIDTH, seed=2), []
    for run in (weighted_filter, dense_filter):
        inputs = [part.clone().requires_grad_() for part in given]
        out = run(pattern, *inputs)
        # A non-linear loss, so that the incoming gradient differs from entry to entry.
        slopes = torch.autograd.grad((bend * out.tanh()).sum(), inputs, materialize_grads=True)
        results.append((out, *slopes))
    for got, expected in zip(*results, strict=True):
        torch.testing.assert_close(got, expected)


def test_a_node_without_any_weight_has_finite_values_and_gradients():
    pattern = EdgePattern.of(torch.tensor([[0], [0]]), 2, torch.zeros(1), torch.float64)
    weight = pattern.weight.clone().requires_grad_()
    out = weighted_filter(pattern, weight, draw(2, WIDTH), draw(3, seed=1))
    out.sum().backward()
    assert out.isfinite().all()
    assert weight.grad.isfinite().all()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("needs_weight", [True, False])
@pytest.mark.parametrize("name", EDGES)
def test_fast_products_give_the_same_value_and_gradients(monkeypatch, name, needs_weight, threads):
    def run(fast):
        products = sys.modules["matcha_gnn.kernels.propagate"]
        monkeypatch.setattr(products, "sums_of_rows_pay", lambda h: fast)
        pattern = pattern_of(name, dtype=torch.float32)
        weight = inside(pattern).float().requires_grad_(needs_weight)
        h, hop_weights = draw(NODES, WIDTH).float().requires_grad_(), draw(HOPS + 1, seed=1).float()
        out = weighted_filter(pattern, weight, h, hop_weights)
        (out * draw(NODES, WIDTH, seed=2).float()).sum().backward()
        return [part for part in (out.detach(), weight.grad, h.grad) if part is not None]

    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    for got, expected in zip(run(True), run(False), strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)
