"""The law of degrees, against SciPy's distributions and drawn degrees."""

import numpy as np
import pytest
import scipy.stats
import torch

import matcha_gnn as mg
from matcha_gnn.evidence.neighbours import DegreeLaw, fit_degree_law, incoming_degrees
from matcha_gnn.graphs.memory import Graph
from matcha_paper.studies.worlds import World


@pytest.mark.parametrize("dispersion", [0.0, 0.5])
def test_log_odds_are_those_of_the_distribution(dispersion):
    means, degrees = np.array([2.0, 6.0, 9.0]), np.arange(12)
    law = DegreeLaw(torch.from_numpy(means), dispersion)
    found = law.log_odds(torch.from_numpy(degrees).double()).numpy()
    if dispersion:
        size = 1 / dispersion
        peer = scipy.stats.nbinom.logpmf(degrees[:, None], size, size / (size + means))
    else:
        peer = scipy.stats.poisson.logpmf(degrees[:, None], means)
    np.testing.assert_allclose(found - found[:, :1], peer - peer[:, :1], atol=1e-9)


def test_degrees_leave_self_loops_out():
    graph = Graph(torch.ones(3, 1), torch.tensor([[0, 1, 2, 2], [1, 0, 1, 2]]))
    assert incoming_degrees(graph).tolist() == [1.0, 2.0, 0.0]


def test_a_class_with_more_edges_has_a_higher_mean():
    drawn = World((0.5, 0.5), 0.7, 6, nodes=6000, class_degrees=(3.0, 1.0)).draw(0)
    shares = torch.bincount(drawn.y).double() / len(drawn.y)
    labels = drawn.y[drawn.edge_index]
    pairs = torch.bincount(labels[1] * 2 + labels[0], minlength=4).view(2, 2).double()
    graph = mg.unlabelled(drawn)
    degrees = incoming_degrees(graph)
    law = fit_degree_law(pairs / pairs.sum(), shares, degrees)
    means = [float(degrees[drawn.y == each].mean()) for each in (0, 1)]
    np.testing.assert_allclose(law.means, means, rtol=0.01)
    right = law.log_odds(degrees).argmax(1) == drawn.y
    assert float(right.double().mean()) > 0.7


def test_unequal_nodes_make_degrees_less_telling():
    even = World((0.5, 0.5), 0.7, 6, nodes=4000).draw(0)
    tailed = World((0.5, 0.5), 0.7, 6, nodes=4000, tail=2.3).draw(0)
    half, shares = torch.full((2, 2), 0.25).double(), torch.full((2,), 0.5).double()
    found = []
    for drawn in (even, tailed):
        graph = mg.unlabelled(drawn)
        found.append(fit_degree_law(half, shares, incoming_degrees(graph)).dispersion)
    assert found[0] < 0.05
    assert found[1] > 0.3
