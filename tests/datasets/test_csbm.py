"""Drawn graphs against the law they are drawn from."""

from itertools import combinations

import numpy as np
import pytest
import torch
from scipy import stats
from torch_geometric.utils import degree, homophily

from matcha_gnn.datasets import csbm
from matcha_gnn.datasets.csbm import class_centres
from matcha_gnn.errors import InvalidArgumentError

# A right generator leaves this two-sided tail once in a million tests; the seeds are fixed.
TAIL = 1e-6
Z_LIMIT = stats.norm.isf(TAIL / 2)
TWO = (0.5, 0.5)
THREE = (0.1, 0.3, 0.6)
TEN = tuple(np.arange(1, 11) / 55)
SHARES = pytest.mark.parametrize("shares", [TWO, THREE, TEN], ids=["two", "three", "ten"])


def small(**options):
    return csbm(**({"num_nodes": 4000, "num_features": 16, "degree": 6.0} | options))


def edges_inside(graph):
    """Undirected edges within a class, and in all."""
    sender, receiver = graph.y[graph.edge_index]
    return int((sender == receiver).sum()) // 2, graph.num_edges // 2


def noise(graph, shares, signal, shift=0.0):
    """What is left of the features when centre and shift are taken away, in units of the noise."""
    num_features = graph.num_features
    centres = class_centres(len(shares), num_features, signal) + shift / num_features**0.5
    return graph.x.double().numpy() * num_features**0.5 - centres[graph.y.numpy()]


# Edges


@SHARES
@pytest.mark.parametrize("share_inside", [0.2, 0.8])
def test_the_number_of_edges_inside_and_between_classes_is_binomial(shares, share_inside):
    graph = small(shares=shares, homophily=share_inside)
    inside, total = edges_inside(graph)
    for count, expected in (
        (inside, 4000 * 6.0 / 2 * share_inside),
        (total - inside, 4000 * 6.0 / 2 * (1 - share_inside)),
    ):
        # Pairs are linked with small probability: the count is Poisson to a good degree.
        assert abs(count - expected) < Z_LIMIT * expected**0.5
    assert homophily(graph.edge_index, graph.y, method="edge") == pytest.approx(
        share_inside, abs=Z_LIMIT * (share_inside * (1 - share_inside) / total) ** 0.5
    )


def test_pairs_of_classes_share_the_other_edges_by_the_product_of_their_sizes():
    graph = small(num_nodes=20_000, shares=THREE, homophily=0.2)
    counts = torch.zeros(3, 3)
    sender, receiver = graph.y[graph.edge_index]
    counts.index_put_((sender, receiver), torch.ones(graph.num_edges), accumulate=True)
    seen = [float(counts[a, b]) for a, b in combinations(range(3), 2)]
    weights = np.array([THREE[a] * THREE[b] for a, b in combinations(range(3), 2)])
    assert stats.chisquare(seen, weights / weights.sum() * sum(seen)).pvalue > TAIL


def test_degrees_are_poisson_as_pairs_are_independent():
    graph = small(num_nodes=20_000, degree=3.0)
    degrees = degree(graph.edge_index[1], 20_000)
    seen = torch.bincount(degrees.long().clamp_max(9), minlength=10)
    chance = np.append(stats.poisson.pmf(np.arange(9), 3.0), stats.poisson.sf(8, 3.0))
    assert stats.chisquare(seen, chance * 20_000).pvalue > TAIL


# Labels


@SHARES
def test_class_sizes_are_the_asked_shares(shares):
    counts = torch.bincount(small(shares=shares).y, minlength=len(shares))
    assert np.abs(counts.numpy() / 4000 - shares).max() <= 1 / 4000


# Features


@SHARES
@pytest.mark.parametrize("shift", [0.0, 0.89])
def test_features_are_centre_plus_shift_plus_unit_noise_over_root_f(shares, shift):
    graph = small(shares=shares, signal=2.0, shift=shift)
    rest = noise(graph, shares, 2.0, shift)
    assert stats.kstest(rest.ravel(), "norm").pvalue > TAIL
    for c in range(len(shares)):
        part = rest[graph.y.numpy() == c]
        assert np.abs(part.mean(0)).max() < Z_LIMIT / len(part) ** 0.5
    low, high = stats.chi2.ppf([TAIL / 2, 1 - TAIL / 2], rest.size)
    assert low < (rest**2).sum() < high


@pytest.mark.parametrize("num_classes", [2, 3, 10])
@pytest.mark.parametrize("num_features", [9, 16, 2000])
def test_centres_are_the_corners_of_a_regular_simplex(num_classes, num_features):
    centres = class_centres(num_classes, num_features, 1.5)
    assert centres.shape == (num_classes, num_features)
    np.testing.assert_allclose(np.linalg.norm(centres, axis=1), 1.5)
    np.testing.assert_allclose(centres.sum(0), 0, atol=1e-12)
    apart = [np.linalg.norm(a - b) for a, b in combinations(centres, 2)]
    np.testing.assert_allclose(apart, 1.5 * (2 * num_classes / (num_classes - 1)) ** 0.5)


# Seeds and sizes


def test_the_same_seed_gives_the_same_graph():
    first, second = small(seed=3), small(seed=3)
    for name in ("x", "edge_index", "y"):
        assert torch.equal(first[name], second[name])


@pytest.mark.parametrize(
    ("share_inside", "limit"),
    [(1.0, 4.0), (0.5, 8.0), (0.0, 9.5)],
)
def test_a_degree_that_some_class_cannot_reach_is_refused_instead_of_missed(share_inside, limit):
    """Five nodes beside 95: four neighbours inside at most, 475 pairs between at most."""
    options = {"num_nodes": 100, "num_features": 2, "shares": (0.05, 0.95)}
    options["homophily"] = share_inside
    csbm(**options, degree=limit)
    with pytest.raises(InvalidArgumentError, match=rf"degree: got .* 0 to {limit:g} "):
        csbm(**options, degree=limit + 0.01)
