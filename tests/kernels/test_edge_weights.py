"""The filter's gradient in raw edge weights against dense algebra, PyG and finite differences."""

import sys

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from matcha_gnn.gamma.kernels.edge_weights import EdgePattern, weighted_filter
from matcha_gnn.kernels import Adjacency, filter_hops

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


class Watch(TorchDispatchMode):
    """Counts operations and remembers the largest dense result of any."""

    def __init__(self):
        super().__init__()
        self.largest, self.products, self.sampled = 0, 0, 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        sparse = [a for a in args if isinstance(a, torch.Tensor) and a.layout == torch.sparse_csr]
        name = func.overloadpacket.__name__
        self.products += name in ("mm", "addmm") and bool(sparse)
        self.sampled += "sampled_addmm" in name
        if isinstance(out, torch.Tensor) and out.layout == torch.strided:
            self.largest = max(self.largest, out.numel())
        return out


# The pattern


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


@pytest.mark.parametrize("name", EDGES)
def test_transpose_is_the_transpose(name):
    pattern = pattern_of(name)
    values = inside(pattern)
    assert torch.equal(pattern.transpose(values).to_dense(), pattern.matrix(values).to_dense().T), (
        "for values that differ between the directions too"
    )


def test_both_directions_of_an_edge_share_a_pair_and_loops_have_none():
    pattern = pattern_of("repeated")
    number = dict(
        zip(zip(pattern.col.tolist(), pattern.row.tolist(), strict=True), pattern.pair, strict=True)
    )
    assert pattern.num_pairs == 2
    assert number[0, 1] == number[1, 0] == 0
    assert number[3, 4] == 1
    assert all(number[i, i] == pattern.num_pairs for i in range(NODES))
    assert len(number) == NODES + 3, "parallel edges are one entry"


def test_the_callers_weights_are_not_kept():
    edges = torch.tensor(EDGES["undirected"])
    weight = torch.ones(edges.shape[1], dtype=torch.float64)
    before = EdgePattern.of(edges, NODES, weight, torch.float64).weight.clone()
    pattern = EdgePattern.of(edges, NODES, weight, torch.float64)
    weight.mul_(5)
    assert torch.equal(pattern.weight, before)


# The filter


@pytest.mark.parametrize("name", EDGES)
def test_given_weights_are_the_filter_of_the_adjacency(name):
    pattern, h, hop_weights = pattern_of(name), draw(NODES, WIDTH), draw(HOPS + 1, seed=1)
    edges = torch.tensor(EDGES[name], dtype=torch.int64)
    adjacency = Adjacency.normalised(edges, NODES, None, torch.float64)
    torch.testing.assert_close(
        weighted_filter(pattern, pattern.weight, h, hop_weights),
        filter_hops(adjacency, h, hop_weights),
    )


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


@pytest.mark.parametrize("name", EDGES)
def test_gradients_pass_finite_differences(name):
    pattern = pattern_of(name)
    inputs = inside(pattern), draw(NODES, WIDTH), draw(HOPS + 1, seed=1)
    inputs = [part.requires_grad_() for part in inputs]
    assert torch.autograd.gradcheck(lambda *parts: weighted_filter(pattern, *parts), inputs)


def test_the_gradient_counts_the_degree():
    """A weight with fixed degrees would have a positive slope here; its degree turns it round."""
    edges = torch.tensor([[0, 1], [1, 0]])
    pattern = EdgePattern.of(edges, 2, None, torch.float64)
    weight = pattern.weight.clone().requires_grad_()
    h, hop_weights = torch.tensor([[0.0], [4.0]]).double(), torch.tensor([0.0, 1.0]).double()
    weighted_filter(pattern, weight, h, hop_weights)[1, 0].backward()
    from_node_0 = weight.grad[(pattern.row == 1) & (pattern.col == 0)]
    assert from_node_0.item() == pytest.approx(-1), "node 0 sends 0 and takes from node 1's own"


@pytest.mark.parametrize("wanted", ["weight", "h", "hop_weights"])
def test_a_gradient_for_one_input_alone_is_the_same(wanted):
    pattern = pattern_of("directed")
    names = ("weight", "h", "hop_weights")
    given = dict(zip(names, (inside(pattern), draw(NODES, 2), draw(3, seed=1)), strict=True))

    def slopes(asked):
        inputs = {k: v.clone().requires_grad_(k in asked) for k, v in given.items()}
        weighted_filter(pattern, **inputs).square().sum().backward()
        return {k: v.grad for k, v in inputs.items()}

    alone = slopes({wanted})
    assert {k for k, v in alone.items() if v is not None} == {wanted}
    torch.testing.assert_close(alone[wanted], slopes(set(names))[wanted])


def test_the_gradient_of_a_sum_over_pairs_is_that_of_both_directions():
    pattern = pattern_of("undirected")
    h, hop_weights = draw(NODES, WIDTH), draw(HOPS + 1, seed=1)
    p = torch.full((pattern.num_pairs,), 0.3, dtype=torch.float64, requires_grad=True)

    def value(p):
        kept = torch.cat([1 - p, p.new_ones(1)])[pattern.pair]
        return weighted_filter(pattern, kept, h, hop_weights)

    assert torch.autograd.gradcheck(value, p)


def test_a_node_without_any_weight_has_finite_values_and_gradients():
    pattern = EdgePattern.of(torch.tensor([[0], [0]]), 2, torch.zeros(1), torch.float64)
    weight = pattern.weight.clone().requires_grad_()
    out = weighted_filter(pattern, weight, draw(2, WIDTH), draw(3, seed=1))
    out.sum().backward()
    assert out.isfinite().all()
    assert weight.grad.isfinite().all()


def test_single_precision_agrees_with_double():
    pattern, single = pattern_of("a hub"), pattern_of("a hub", dtype=torch.float32)
    slopes = []
    for p, dtype in ((pattern, torch.float64), (single, torch.float32)):
        inputs = inside(pattern), draw(NODES, WIDTH), draw(HOPS + 1, seed=1)
        weight, h, hop_weights = (part.to(dtype).requires_grad_() for part in inputs)
        weighted_filter(p, weight, h, hop_weights).square().sum().backward()
        slopes.append((weight.grad, h.grad))
        assert weight.grad.dtype == h.grad.dtype == dtype
    for got, expected in zip(*slopes, strict=True):
        torch.testing.assert_close(expected.double(), got, rtol=1e-4, atol=1e-4)


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


def test_inputs_are_left_alone_and_a_second_derivative_is_refused():
    pattern = pattern_of("directed")
    weight, h, hop_weights = inside(pattern).requires_grad_(), draw(NODES, WIDTH), draw(3, seed=1)
    before = weight.detach().clone(), h.clone(), hop_weights.clone()
    out = weighted_filter(pattern, weight, h, hop_weights)
    (slope,) = torch.autograd.grad(out.square().sum(), weight, create_graph=True)
    assert all(map(torch.equal, (weight, h, hop_weights), before))
    with pytest.raises(RuntimeError, match="differentiate twice"):
        slope.sum().backward()


# The work


def large():
    nodes, edges = 300, 6000
    index = torch.randint(nodes, (2, edges), generator=torch.Generator().manual_seed(0))
    pattern = EdgePattern.of(index, nodes, None, torch.float64)
    return pattern, draw(nodes, 16), draw(HOPS + 1, seed=1)


def test_no_message_is_made_for_each_edge():
    pattern, h, hop_weights = large()
    weight = pattern.weight.clone().requires_grad_()
    h.requires_grad_()
    with Watch() as seen:
        weighted_filter(pattern, weight, h, hop_weights).sum().backward()
    entries = len(pattern.row)
    assert entries * h.shape[1] > 10 * seen.largest, "messages would be ten times larger"
    assert seen.largest <= max(entries + 1, h.numel())


@pytest.mark.parametrize(
    ("wanted", "products", "sampled"),
    [("h", 2 * HOPS, 0), ("weight", 2 * HOPS - 1, HOPS), ("both", 2 * HOPS, HOPS)],
)
def test_sparse_products_are_not_repeated(wanted, products, sampled):
    pattern, h, hop_weights = large()
    weight = pattern.weight.clone().requires_grad_(wanted != "h")
    h.requires_grad_(wanted != "weight")
    with Watch() as seen:
        weighted_filter(pattern, weight, h, hop_weights).sum().backward()
    assert (seen.products, seen.sampled) == (products, sampled)
