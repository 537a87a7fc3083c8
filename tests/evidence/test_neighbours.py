"""What edges say, against counts of known classes and exact marginals of small trees."""

import itertools

import numpy as np
import pytest
import torch

import matcha_gnn as mg
from matcha_gnn.evidence.neighbours import believe, fit_edge_shares, sample_edges
from matcha_gnn.graph import Graph
from matcha_gnn.summary import class_edge_shares


def test_shares_of_edges_between_known_classes_are_counts():
    graph = mg.datasets.csbm(800, 4, homophily=0.3, shares=(0.2, 0.5, 0.3), seed=0)
    certain = torch.nn.functional.one_hot(graph.y).double()
    found, _ = fit_edge_shares(*certain[graph.edge_index], certain.mean(0))
    everyone = torch.ones(800, dtype=torch.bool)
    counted = class_edge_shares(graph.y, everyone, graph.edge_index, 3)
    np.testing.assert_allclose(found.T, counted, atol=2e-3)


def test_homophily_is_found_through_noise():
    graph = mg.datasets.csbm(6000, 2, homophily=0.2, degree=4, seed=1)
    rng = np.random.default_rng(0)
    logit = 2.0 * (2 * graph.y.numpy() - 1) + 2.0 * rng.standard_normal(6000)
    first = 1 / (1 + np.exp(-logit))
    probs = torch.from_numpy(np.stack([1 - first, first], 1))
    found, value = fit_edge_shares(*probs[graph.edge_index], probs.mean(0))
    assert abs(float(found.trace()) - 0.2) < 0.03
    blind, none = fit_edge_shares(*probs[torch.randperm(6000)][graph.edge_index], probs.mean(0))
    assert abs(float(blind.trace()) - 0.5) < 0.05
    assert value > none


EDGE_SHARES = torch.tensor([[0.4, 0.2], [0.2, 0.2]]).double()


def exact_marginals(evidence: torch.Tensor, links: list[tuple[int, int]]) -> np.ndarray:
    """By going through all classes of all nodes."""
    margin = EDGE_SHARES.sum(0)
    lift = EDGE_SHARES / margin[:, None] / margin
    total = np.zeros(evidence.shape)
    for classes in itertools.product(range(2), repeat=len(evidence)):
        weight = np.exp(sum(float(evidence[i, c]) for i, c in enumerate(classes)))
        weight *= np.prod([float(lift[classes[i], classes[j]]) for i, j in links])
        for node, c in enumerate(classes):
            total[node, c] += weight
    return total / total.sum(1, keepdims=True)


@pytest.mark.parametrize("links", [[(0, 1)], [(0, 1), (1, 2)], [(0, 1), (0, 2), (0, 3)]])
def test_beliefs_are_exact_on_trees_two_hops_wide(links):
    evidence = torch.from_numpy(np.random.default_rng(0).standard_normal((4, 2)))
    edges = torch.tensor([*links, *((j, i) for i, j in links), (3, 3)]).T
    found = believe(evidence, EDGE_SHARES, Graph(evidence, edges))
    np.testing.assert_allclose(found, exact_marginals(evidence, links), rtol=1e-9)


def test_without_an_edge_back_there_is_no_echo_to_leave_out():
    evidence = torch.from_numpy(np.random.default_rng(1).standard_normal((3, 2)))
    edges = torch.tensor([[1, 2, 0], [0, 0, 0]])
    graph = Graph(evidence, edges)
    assert not graph.reciprocal
    found = believe(evidence, EDGE_SHARES, graph)
    np.testing.assert_allclose(found[1:], evidence[1:].softmax(1))
    np.testing.assert_allclose(found[0], exact_marginals(evidence, [(0, 1), (0, 2)])[0])


@pytest.mark.parametrize("seed", range(3))
def test_every_edge_having_its_reverse_is_seen(seed):
    graph = mg.datasets.csbm(300, 2, degree=4, seed=seed)
    edges = graph.edge_index
    shuffled = edges[:, torch.randperm(edges.shape[1])]
    assert Graph(graph.x, shuffled).reciprocal
    turned = edges.clone()
    turned[:, seed] = edges[:, seed].flip(0)
    assert not Graph(graph.x, turned).reciprocal
    assert not Graph(graph.x, edges[:, 1:]).reciprocal


def test_a_sample_has_no_loops_and_is_bounded():
    edges = torch.randint(50, (2, 100_000))
    sample = sample_edges(Graph(torch.ones(50, 1), edges))
    assert sample.shape[1] <= 20_000
    assert not (sample[0] == sample[1]).any()


def test_no_edges_say_nothing():
    probs = torch.full((3, 2), 0.5).double()
    nothing = torch.zeros(2, 0, dtype=torch.long)
    found, value = fit_edge_shares(*probs[nothing], probs.mean(0))
    assert value == 0
    evidence = probs.log()
    torch.testing.assert_close(believe(evidence, found, Graph(probs, nothing)), probs)
