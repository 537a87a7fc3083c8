"""The normalised adjacency and the polynomial filter against PyG, dense algebra and gradcheck."""

import sys

import pytest
import torch
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from matcha_gnn.kernels import Adjacency, filter_hops, propagate

NODES = 9
UNDIRECTED = [[0, 1, 1, 2, 2, 3, 3, 0, 4, 5], [1, 0, 2, 1, 3, 2, 0, 3, 5, 4]]
EDGES = {
    "undirected": UNDIRECTED,
    "directed": [[0, 0, 0, 1, 2, 3, 5, 8], [1, 2, 3, 4, 5, 6, 0, 0]],
    "self loops": [[0, 1, 2, 2, 5], [0, 2, 1, 2, 5]],
    "repeated self loops": [[0, 0, 0, 1], [0, 0, 1, 0]],
    "repeated edges": [[0, 0, 0, 1, 3, 3], [1, 1, 1, 0, 4, 4]],
    "isolated nodes": [[0, 1], [1, 0]],
    "no edges": [[], []],
    "complete with loops": [[i for i in range(9) for _ in range(9)], [*range(9)] * 9],
}


def edges(name):
    return torch.tensor(EDGES[name], dtype=torch.int64)


def weights_for(edge_index, *, zeros=False):
    draw = torch.Generator().manual_seed(1)
    weight = torch.rand(edge_index.shape[1], generator=draw, dtype=torch.float64) + 0.1
    return torch.where(torch.arange(len(weight)) % 3 == 0, 0, weight) if zeros else weight


def pyg_matrix(edge_index, weight=None):
    """PyG's own normalisation as a dense matrix: row i gathers what node i receives."""
    index, value = gcn_norm(edge_index, weight, NODES, dtype=torch.float64)
    matrix = torch.zeros(NODES, NODES, dtype=torch.float64)
    return matrix.index_put_((index[1], index[0]), value, accumulate=True)


def ours(edge_index, weight=None, dtype=torch.float64):
    return Adjacency.normalised(edge_index, NODES, weight, dtype)


def features(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


# The matrix


@pytest.mark.parametrize("name", EDGES)
@pytest.mark.parametrize("kind", ["ones", "weights", "weights with zeros"])
def test_equals_the_matrix_of_pyg(name, kind):
    edge_index = edges(name)
    weight = None if kind == "ones" else weights_for(edge_index, zeros=kind.endswith("zeros"))
    torch.testing.assert_close(
        ours(edge_index, weight).matrix.to_dense(), pyg_matrix(edge_index, weight)
    )


# The stack


@pytest.mark.parametrize("name", EDGES)
def test_the_stack_holds_matrix_powers_node_by_node(name):
    h, matrix = features(NODES, 4), pyg_matrix(edges(name))
    stack = propagate(ours(edges(name)), h, 5)
    assert stack.shape == (NODES, 6, 4)
    assert stack.is_contiguous()
    for k in range(6):
        torch.testing.assert_close(stack[:, k], torch.linalg.matrix_power(matrix, k) @ h)


@pytest.mark.parametrize(
    ("of_matrix", "of_h"), [(torch.float32, torch.float64), (torch.float64, torch.float32)]
)
def test_features_decide_the_precision(of_matrix, of_h):
    adjacency = ours(edges("directed"), dtype=of_matrix)
    h, hop_weights = features(NODES, 4, dtype=of_h).requires_grad_(), features(4, dtype=of_h)
    with torch.no_grad():
        assert propagate(adjacency, h, 3).dtype == of_h
    filter_hops(adjacency, h, hop_weights).sum().backward()
    assert h.grad.dtype == of_h
    dense = pyg_matrix(edges("directed")).to(of_h)
    torch.testing.assert_close(
        h.grad, dense_filter_gradient(dense, hop_weights), rtol=1e-5, atol=1e-6
    )


def dense_filter_gradient(matrix, hop_weights):
    """Gradient of Σ_k c_k P^k h, summed over all entries, in h of four columns."""
    ones = torch.ones(NODES, 4, dtype=matrix.dtype)
    return sum(c * torch.linalg.matrix_power(matrix.T, k) @ ones for k, c in enumerate(hop_weights))


# The filter


def dense_filter(matrix, h, hop_weights):
    return sum(c * torch.linalg.matrix_power(matrix, k) @ h for k, c in enumerate(hop_weights))


@pytest.mark.parametrize("name", EDGES)
@pytest.mark.parametrize("num_hops", [0, 1, 6])
def test_value_and_gradients_equal_plain_autograd_on_the_dense_matrix(name, num_hops):
    h, hop_weights = features(NODES, 4), features(num_hops + 1, seed=1)
    weight = features(NODES, 4, seed=2)
    results = []
    for run in (
        lambda h, c: filter_hops(ours(edges(name)), h, c),
        lambda h, c: dense_filter(pyg_matrix(edges(name)), h, c),
    ):
        inputs = h.clone().requires_grad_(), hop_weights.clone().requires_grad_()
        out = run(*inputs)
        # A non-linear loss, so that the incoming gradient differs from entry to entry.
        results.append((out, *torch.autograd.grad((weight * out.tanh()).sum(), inputs)))
    for got, expected in zip(*results, strict=True):
        torch.testing.assert_close(got, expected)


def test_a_second_derivative_is_refused_instead_of_wrong():
    h, hop_weights = features(NODES, 4).requires_grad_(), features(4, seed=1).requires_grad_()
    out = filter_hops(ours(edges("directed")), h, hop_weights)
    (slope,) = torch.autograd.grad(out.square().sum(), hop_weights, create_graph=True)
    with pytest.raises(RuntimeError, match="differentiate twice"):
        slope.sum().backward()


# The product of float32 on the CPU


@pytest.mark.parametrize("width", [1, 3, 16, 37])
@pytest.mark.parametrize("name", EDGES)
def test_product_in_single_precision_equals_the_dense_one(name, width):
    adjacency, h = ours(edges(name), dtype=torch.float32), features(NODES, width).float()
    dense = adjacency.matrix.to_dense().double()
    torch.testing.assert_close((adjacency @ h).double(), dense @ h.double(), atol=1e-6, rtol=1e-5)
    stack = propagate(adjacency, h, 3)
    for k in range(4):
        expected = torch.linalg.matrix_power(dense, k) @ h.double()
        torch.testing.assert_close(stack[:, k].double(), expected, atol=1e-6, rtol=1e-5)


def test_hops_and_horners_rule_do_not_depend_on_the_blocks_of_rows(monkeypatch):
    edge_index = torch.randint(0, 500, (2, 3_000), generator=torch.Generator().manual_seed(0))
    adjacency = Adjacency.normalised(edge_index, 500, None, torch.float32)
    h, hop_weights = features(500, 8, dtype=torch.float32), torch.tensor([0.3, -1.0, 0.5, 0.2])
    stack, mixed = propagate(adjacency, h, 3), filter_hops(adjacency, h, hop_weights)
    monkeypatch.setattr(sys.modules["matcha_gnn.kernels.propagate"], "_BLOCK", 8 * 70)
    assert len(list(adjacency.row_blocks(8))) == 8
    assert torch.equal(propagate(adjacency, h, 3), stack)
    assert torch.equal(filter_hops(adjacency, h, hop_weights), mixed)
    dense = adjacency.matrix.to_dense().double()
    powers = torch.stack([torch.linalg.matrix_power(dense, k) @ h.double() for k in range(4)], 1)
    torch.testing.assert_close(stack.double(), powers, rtol=1e-5, atol=1e-6)
    expected = torch.einsum("nkd,k->nd", powers, hop_weights.double())
    torch.testing.assert_close(mixed.double(), expected, rtol=1e-5, atol=1e-6)
