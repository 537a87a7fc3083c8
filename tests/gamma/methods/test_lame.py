"""LAME against a dense plain form and scikit-learn's neighbours, its options and its edges."""

import math

import numpy as np
import pytest
import torch
from sklearn.neighbors import NearestNeighbors
from torch.nn import functional as F  # noqa: N812
from torch.utils._python_dispatch import TorchDispatchMode

import matcha_gnn as mg
from matcha_gnn.gamma.methods import View
from matcha_gnn.gamma.methods.lame import LAME, nearest, neighbour_table
from matcha_gnn.gamma.testing import tiny_graph, trained_model


def points(rows, width=6, seed=0, dtype=torch.float64):
    return torch.randn(rows, width, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def gathered(queries, rows, k, apart=False):
    """All blocks of a search joined."""
    blocks = list(nearest(queries, rows, k, apart=apart))
    covered = torch.cat([torch.arange(len(queries))[block] for block, _, _ in blocks])
    assert covered.tolist() == list(range(len(queries)))
    return tuple(torch.cat([block[i].clone() for block in blocks]) for i in (1, 2))


def view_of(model, graph):
    graph, model = mg.unlabelled(graph), model.frozen()
    return View(model, graph, model.hops(graph), model.gamma.detach(), 0)


def plain_affinity(z, k):
    unit = z.numpy() / np.linalg.norm(z.numpy(), axis=1, keepdims=True)
    similarity = unit @ unit.T
    np.fill_diagonal(similarity, -np.inf)
    affinity = np.zeros_like(similarity)
    for i, row in enumerate(similarity):
        affinity[i, np.argsort(-row)[:k]] = 1
    return affinity


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


@pytest.mark.parametrize("k", [1, 4, 30])
@pytest.mark.parametrize("nodes", [2, 3, 40, 900])
def test_neighbours_are_those_of_scikit_learn(nodes, k):
    z = points(nodes)
    k = min(k, nodes - 1)
    search = NearestNeighbors(n_neighbors=k, metric="cosine", algorithm="brute").fit(z.numpy())
    expected = np.sort(search.kneighbors(return_distance=False), 1)
    found = neighbour_table(z, k).sort(1).values
    assert np.array_equal(found.numpy(), expected)


@pytest.mark.parametrize("apart", [False, True])
def test_a_row_finds_itself_unless_told_not_to(apart):
    rows = F.normalize(points(30))
    _, found = gathered(rows, rows, 4, apart)
    assert (found == torch.arange(30)[:, None]).any(1).all() != apart
    assert (found == torch.arange(30)[:, None]).any() != apart


@pytest.mark.parametrize("scale", [0.3, 1.0])
@pytest.mark.parametrize("iterations", [0, 1, 2, 9])
def test_equals_the_dense_form(iterations, scale):
    view = view_of(trained_model().double(), tiny_graph())
    method = LAME(k=4, iterations=iterations, tolerance=0, scale=scale)
    probs, _ = method.predict(view, None)
    affinity = scale * plain_affinity(view.z, 4)
    expected = plain_lame(view.logits.softmax(1).numpy(), affinity, iterations)
    torch.testing.assert_close(probs.probs, torch.from_numpy(expected))


def test_the_answer_is_a_fixed_point_of_lower_energy():
    view = view_of(trained_model().double(), tiny_graph())
    answer = LAME(tolerance=1e-14, iterations=1000).predict(view, None)[0].probs
    start, affinity = view.logits.softmax(1).numpy(), plain_affinity(view.z, 5)
    once_more = start * np.exp(affinity @ answer.numpy())
    once_more /= once_more.sum(1, keepdims=True)
    np.testing.assert_allclose(answer, once_more, atol=1e-6)
    assert energy(answer.numpy(), start, affinity) < energy(start, start, affinity) - 1


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


def test_no_tensor_of_all_pairs_is_made():
    nodes = 3000
    model = trained_model()
    graph = mg.datasets.csbm(nodes, 6, 4.0, 0.2, signal=3.0, shares=[1 / 3] * 3, seed=2)
    view = view_of(model, graph)
    assert len(view.logits) == nodes
    with LargestTensor() as largest:
        LAME().predict(view, None)
    assert largest.numel <= 256 * nodes < nodes**2 / 10
