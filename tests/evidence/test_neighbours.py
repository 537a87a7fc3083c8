"""What edges say, against counts of known classes and against Bayes' rule by hand."""

import numpy as np
import torch

import matcha_gnn as mg
from matcha_gnn.evidence.neighbours import fit_edge_shares, neighbour_evidence, sample_edges
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


def test_evidence_is_bayes_rule_on_a_star():
    shares = torch.tensor([0.6, 0.4]).double()
    edge_shares = torch.tensor([[0.4, 0.2], [0.2, 0.2]]).double()
    probs = torch.tensor([[0.5, 0.5], [0.9, 0.1], [0.3, 0.7]]).double()
    edges = torch.tensor([[1, 2, 0], [0, 0, 0]])
    found = neighbour_evidence(probs, edge_shares, Graph(probs, edges))
    given = edge_shares / edge_shares.sum(1, keepdim=True)
    expected = [
        sum(float((given[c] * probs[j] / shares).sum().log()) for j in (1, 2)) for c in range(2)
    ]
    np.testing.assert_allclose(found[0], expected, rtol=1e-4)
    assert found[1:].abs().max() == 0


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
    assert neighbour_evidence(probs, found, Graph(probs, nothing)).abs().max() == 0
