"""LAME against a dense plain form and scikit-learn's neighbours, its options and its edges."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.neighbors import NearestNeighbors
from torch.nn import functional as F  # noqa: N812
from torch.utils._python_dispatch import TorchDispatchMode

import matcha_gnn as mg
from matcha_gnn.gamma.methods import View
from matcha_gnn.gamma.methods import lame as module
from matcha_gnn.gamma.methods.lame import LAME, nearest, neighbour_table
from matcha_gnn.gamma.testing import awkward_graphs, check_method, tiny_graph, trained_model


def points(rows, width=6, seed=0, dtype=torch.float64):
    return torch.randn(rows, width, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def gathered(queries, rows, k, own=None):
    """All blocks of a search joined."""
    blocks = list(nearest(queries, rows, k, own))
    covered = torch.cat([torch.arange(len(queries))[block] for block, _, _ in blocks])
    assert covered.tolist() == list(range(len(queries)))
    return tuple(torch.cat([block[i].clone() for block in blocks]) for i in (1, 2))


def view_of(model, graph):
    graph, model = mg.unlabelled(graph), model.frozen()
    return View(model, graph, model.hops(graph), model.gamma.detach(), 0)


def plain_affinity(z, k, symmetric=False):
    unit = z.numpy() / np.linalg.norm(z.numpy(), axis=1, keepdims=True)
    similarity = unit @ unit.T
    np.fill_diagonal(similarity, -np.inf)
    affinity = np.zeros_like(similarity)
    for i, row in enumerate(similarity):
        affinity[i, np.argsort(-row)[:k]] = 1
    return (affinity + affinity.T) / 2 if symmetric else affinity


def plain_lame(probs, affinity, iterations):
    answer = probs
    for _ in range(iterations):
        scores = probs * np.exp(affinity @ answer)
        answer = scores / scores.sum(1, keepdims=True)
    return answer


def energy(answer, probs, affinity):
    divergence = (answer * np.log(answer / probs)).sum()
    return divergence - (answer * (affinity @ answer)).sum() / 2


class LargestTensor(TorchDispatchMode):
    """The size of the largest dense result of any torch operation inside."""

    numel = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for part in result if isinstance(result, (tuple, list)) else (result,):
            if isinstance(part, torch.Tensor) and part.layout == torch.strided:
                self.numel = max(self.numel, part.numel())
        return result


@pytest.mark.parametrize("method", [LAME(), LAME(symmetric=True)], ids=["default", "symmetric"])
def test_battery(method):
    check_method(method)


@pytest.mark.parametrize("k", [1, 4, 30])
@pytest.mark.parametrize("nodes", [2, 3, 40, 900])
def test_neighbours_are_those_of_scikit_learn(nodes, k):
    z = points(nodes)
    k = min(k, nodes - 1)
    search = NearestNeighbors(n_neighbors=k, metric="cosine", algorithm="brute").fit(z.numpy())
    expected = np.sort(search.kneighbors(return_distance=False), 1)
    found = neighbour_table(z, k).sort(1).values
    assert np.array_equal(found.numpy(), expected)


@pytest.mark.parametrize("block", [(1, 1), (7, 1 << 20), (1 << 20, 500)])
def test_blocks_of_any_size_find_the_same(monkeypatch, block):
    queries, rows = points(50), points(333, seed=1)
    values, found = gathered(queries, rows, 3)
    monkeypatch.setattr(module, "_CPU_BLOCK", block)
    again, found_again = gathered(queries, rows, 3)
    torch.testing.assert_close(values.sort(1).values, again.sort(1).values)
    assert torch.equal(found.sort(1).values, found_again.sort(1).values)


def test_similarities_belong_to_the_rows_found():
    queries, rows = points(20), points(2000, seed=1)
    values, found = gathered(queries, rows, 5)
    torch.testing.assert_close(values, torch.einsum("nd,nkd->nk", queries, rows[found]))


def test_the_barred_row_is_not_found_and_others_are():
    rows = F.normalize(points(30))
    own = torch.arange(30)
    own[::3] = -1
    _, found = gathered(rows, rows, 4, own)
    met_itself = (found == torch.arange(30)[:, None]).any(1)
    assert met_itself.tolist() == [i % 3 == 0 for i in range(30)]


@settings(max_examples=150, deadline=None)
@given(
    length=st.integers(1, 400),
    k=st.integers(1, 12),
    seed=st.integers(0, 10**6),
    levels=st.sampled_from([2, 5, 1000]),
)
def test_selection_by_groups_is_selection(length, k, seed, levels):
    k = min(k, length)
    generator = torch.Generator().manual_seed(seed)
    values = torch.randint(levels, (3, length), generator=generator).float()
    got, found = module._largest(values, k)
    assert torch.equal(got.sort(1).values, values.topk(k).values.flip(1))
    assert torch.equal(values.gather(1, found), got)
    assert all(len(set(row)) == k for row in found.tolist())


def test_groups_are_used_where_they_pay_and_only_there():
    assert module._group_size(5000, 10) == 7
    assert module._group_size(100_000, 10) == 12
    assert module._group_size(5000, 100) == 4
    assert module._group_size(5000, 1000) == 1
    assert module._group_size(3, 1) == 1


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("scale", [0.3, 1.0])
@pytest.mark.parametrize("iterations", [0, 1, 2, 9])
def test_equals_the_dense_form(iterations, scale, symmetric):
    view = view_of(trained_model().double(), tiny_graph())
    method = LAME(k=4, iterations=iterations, tolerance=0, scale=scale, symmetric=symmetric)
    probs, _ = method.predict(view, None)
    affinity = scale * plain_affinity(view.z, 4, symmetric)
    expected = plain_lame(view.logits.softmax(1).numpy(), affinity, iterations)
    torch.testing.assert_close(probs.probs, torch.from_numpy(expected))


def test_the_answer_is_a_fixed_point_of_lower_energy():
    view = view_of(trained_model().double(), tiny_graph())
    answer = LAME(symmetric=True, tolerance=1e-14, iterations=1000).predict(view, None)[0].probs
    start = view.logits.softmax(1).numpy()
    affinity = plain_affinity(view.z, 5, symmetric=True)
    once_more = start * np.exp(affinity @ answer.numpy())
    once_more /= once_more.sum(1, keepdims=True)
    np.testing.assert_allclose(answer, once_more, atol=1e-6)
    assert energy(answer.numpy(), start, affinity) < energy(start, start, affinity) - 1


def test_each_update_descends_where_the_affinity_is_positive_semi_definite():
    root = points(15, 4).abs()
    affinity = root @ root.T / 4
    log_probs = points(15, 3, seed=1).log_softmax(1)
    probs = log_probs.exp().numpy()
    values = []
    for iterations in range(12):
        method = LAME(iterations=iterations, tolerance=0)
        answer = method._fixed_point(log_probs, affinity.to_sparse_csr()).numpy()
        values.append(energy(answer, probs, affinity.numpy()))
    assert all(b <= a + 1e-12 for a, b in zip(values, values[1:], strict=False))
    assert values[-1] < values[0] - 0.1


def test_the_tolerance_stops_the_updates():
    view = view_of(trained_model().double(), tiny_graph())

    def answer(**options):
        return LAME(**options).predict(view, None)[0].probs

    assert torch.equal(answer(tolerance=1e9), answer(iterations=1))
    assert not torch.allclose(answer(tolerance=1e9), answer(), atol=1e-3)


@pytest.mark.parametrize("tolerance", [3e-1, 1e-1, 3e-2, 1e-2, 1e-3, 1e-5])
def test_updates_end_when_the_energy_does_not_move(tolerance):
    view = view_of(trained_model().double(), tiny_graph())
    start, affinity = view.logits.softmax(1).numpy(), plain_affinity(view.z, 5)
    answer, last = start, math.inf
    while True:
        value = energy(answer, start, affinity)
        if abs(value - last) <= tolerance * abs(last) and last < math.inf:
            break
        last, answer = value, start * np.exp(affinity @ answer)
        answer /= answer.sum(1, keepdims=True)
    got = LAME(tolerance=tolerance).predict(view, None)[0].probs
    torch.testing.assert_close(got, torch.from_numpy(answer), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("options", [{"scale": 0.0}, {"iterations": 0}])
def test_without_a_pull_the_source_answers(options):
    model, graph = trained_model(), tiny_graph()
    still = mg.predict(model, graph, LAME(**options)).probs
    torch.testing.assert_close(still, mg.predict(model, graph).probs)


def test_a_node_among_confident_others_follows_them():
    z = torch.tensor([[1.0, 0.0]] * 5 + [[0.0, 1.0]] * 5)
    logits = torch.tensor([[3.0, 0.0]] * 5 + [[0.0, 3.0]] * 5)
    logits[0] = torch.tensor([0.0, 0.5])
    affinity = LAME(k=4)._affinity(z)
    answer = LAME()._fixed_point(logits.log_softmax(1), affinity)
    assert answer.argmax(1).tolist() == [0] * 5 + [1] * 5


def test_no_tensor_of_all_pairs_is_made():
    nodes = 3000
    model = trained_model()
    graph = mg.datasets.csbm(nodes, 6, 4.0, 0.2, signal=3.0, shares=[1 / 3] * 3, seed=2)
    view = view_of(model, graph)
    assert len(view.logits) == nodes
    with LargestTensor() as largest:
        LAME().predict(view, None)
    assert largest.numel <= 256 * nodes < nodes**2 / 10


@pytest.mark.parametrize(("restart", "searches"), [(True, 4), (False, 1)])
def test_carrying_on_keeps_the_neighbours_of_the_first_round(monkeypatch, restart, searches):
    calls = []
    honest = module.neighbour_table
    monkeypatch.setattr(module, "neighbour_table", lambda z, k: calls.append(k) or honest(z, k))
    mg.adapt(trained_model(), tiny_graph(), LAME(), mg.Matcha(rounds=3, restart=restart))
    assert len(calls) == searches


def test_neighbours_are_those_of_the_current_gamma():
    model, graph = trained_model(), tiny_graph()
    result = mg.adapt(model, graph, LAME(), mg.Matcha(rounds=4))
    alone = mg.predict(result.model, graph, LAME())
    torch.testing.assert_close(alone.probs, result.probs)


@pytest.mark.parametrize("name", ["one node", "two nodes", "equal features", "no edges", "a hub"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_degenerate_targets(name, dtype):
    probs = mg.adapt(
        trained_model().to(dtype),
        awkward_graphs()[name],
        LAME(k=7, symmetric=True),
        mg.Matcha(rounds=2),
    ).probs
    assert probs.dtype == dtype
    torch.testing.assert_close(probs.sum(1), torch.ones(len(probs), dtype=dtype))


def test_one_node_alone_gets_the_source_prediction():
    model, graph = trained_model(), awkward_graphs()["one node"]
    source = mg.predict(model, graph).probs
    torch.testing.assert_close(mg.predict(model, graph, LAME()).probs, source)


def test_very_sure_predictions_stay_finite():
    log_probs = torch.tensor([[1e4, 0.0], [0.0, 1e4], [0.0, 1.0]]).log_softmax(1)
    answer = LAME(k=2)._fixed_point(log_probs, LAME(k=2)._affinity(points(3, dtype=torch.float32)))
    assert bool(torch.isfinite(answer).all())
    torch.testing.assert_close(answer[:2], torch.eye(2))


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"k": 0}, "k"),
        ({"k": 2.5}, "k"),
        ({"iterations": -1}, "iterations"),
        ({"tolerance": -1e-3}, "tolerance"),
        ({"tolerance": math.nan}, "tolerance"),
        ({"scale": -1.0}, "scale"),
        ({"scale": math.inf}, "scale"),
    ],
)
def test_bad_arguments_are_named(options, argument):
    with pytest.raises(mg.InvalidArgumentError, match=f"^{argument}: got"):
        LAME(**options)
