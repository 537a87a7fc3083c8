"""Weights of evidence and network, on draws for which the right ones are known."""

import numpy as np
import pytest
import torch
from torch.nn.functional import one_hot

from matcha_gnn.evidence.weighing import (
    EQUAL,
    EvidenceWeights,
    PoolWeights,
    fit_evidence_weights,
    fit_pool_weights,
)

NODES = 8000


def log_odds(labels: torch.Tensor, distance: float, seed: int) -> torch.Tensor:
    """Log-likelihoods of Gaussian measurements whose classes are so far apart, [N, 2]."""
    noise = torch.randn(len(labels), generator=torch.Generator().manual_seed(seed)).double()
    seen = distance * (2 * labels - 1) / 2 + noise
    return torch.stack([0 * seen, distance * seen], 1)


@pytest.fixture(scope="module")
def labels() -> torch.Tensor:
    return torch.randint(2, (NODES,), generator=torch.Generator().manual_seed(0))


def test_evidence_that_is_right_keeps_its_weights(labels):
    node, edges, degree = (log_odds(labels, far, seed) for far, seed in ((2, 1), (1.5, 2), (1, 3)))
    found = fit_evidence_weights([(node, edges, degree)], labels)
    np.testing.assert_allclose(found[:3], 1.0, atol=0.1)
    assert found.silent < 0.02


def test_evidence_that_is_counted_twice_gets_half_the_weight(labels):
    node, edges = log_odds(labels, 1.5, 1), 2 * log_odds(labels, 1.0, 2)
    found = fit_evidence_weights([(node, edges, torch.zeros_like(node))], labels)
    assert found.edges == pytest.approx(0.5, abs=0.06)


def test_surroundings_that_say_nothing_of_some_nodes_are_found(labels):
    silent = torch.rand(NODES, generator=torch.Generator().manual_seed(4)) < 0.3
    others = torch.where(silent, torch.randint(2, (NODES,)), labels)
    edges = 8.0 * one_hot(others, 2).double()
    node = log_odds(labels, 1.5, 1)
    found = fit_evidence_weights([(node, edges, torch.zeros_like(node))], labels)
    assert found.silent == pytest.approx(0.3, abs=0.05)
    probs = found.combined(node, edges, torch.zeros_like(node)).exp()
    right = float((probs.argmax(1) == labels).double().mean())
    assert float(probs.amax(1).mean()) == pytest.approx(right, abs=0.02)


def test_noise_as_evidence_gets_no_weight(labels):
    node = log_odds(labels, 2, 1)
    noise = torch.randn(NODES, 2, generator=torch.Generator().manual_seed(5)).double()
    found = fit_evidence_weights([(node, noise, torch.zeros_like(node))], labels)
    assert found.edges < 0.1 or found.silent > 0.9


def test_few_labels_leave_weights_near_those_without_labels(labels):
    node = log_odds(labels[:4], 2, 1)
    found = fit_evidence_weights([(node, node, node)], labels[:4])
    np.testing.assert_allclose(found, EvidenceWeights(), atol=0.35)


def test_without_held_out_nodes_evidence_and_network_count_alike():
    nothing = torch.zeros(0)
    assert fit_pool_weights([], nothing.long(), nothing) == PoolWeights(EQUAL, EQUAL)


def test_a_network_that_knows_neighbours_by_heart_counts_less_on_new_graphs(labels):
    evidence = log_odds(labels, 1.5, 1)
    exposed = torch.rand(NODES, generator=torch.Generator().manual_seed(6)).double()
    by_heart = torch.rand(NODES, generator=torch.Generator().manual_seed(7)) < exposed
    network = torch.where(
        by_heart[:, None], 3.0 * one_hot(labels, 2).double(), log_odds(labels, 0.5, 2)
    ).log_softmax(1)
    plain = fit_pool_weights([(evidence, network)], labels, torch.zeros_like(exposed))
    found = fit_pool_weights([(evidence, network)], labels, exposed)
    # Where no neighbour was trained on, the network is right as it is.
    assert found.network == pytest.approx(1.0, abs=0.15)
    assert plain.network > 1.4
    new = log_odds(labels, 0.5, 8).log_softmax(1)
    likely = [
        float(each.pool(evidence, new).gather(1, labels[:, None]).mean()) for each in (plain, found)
    ]
    assert likely[1] > likely[0]


def test_weak_evidence_counts_at_most_once(labels):
    weak = 0.25 * log_odds(labels, 2, 1)
    found = fit_pool_weights([(weak, torch.zeros_like(weak))], labels, torch.zeros(NODES).double())
    assert found.evidence == pytest.approx(1.0)
