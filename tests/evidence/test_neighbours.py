"""Evidence from edges, against counts of known classes and exact marginals of small trees."""

import itertools

import numpy as np
import pytest
import torch

import matcha_gnn as mg
from matcha_gnn.evidence import neighbours
from matcha_gnn.evidence.neighbours import (
    Residuals,
    edge_ends,
    fit_edge_shares,
    neighbour_evidence,
    shrunk_edge_shares,
)
from matcha_gnn.evidence.summarising import class_edge_shares
from matcha_gnn.graphs.memory import Graph


def fitted(senders: torch.Tensor, receivers: torch.Tensor, shares: torch.Tensor) -> torch.Tensor:
    return fit_edge_shares(edge_ends(senders, receivers, shares), shares)


def likelihood_of(
    senders: torch.Tensor, receivers: torch.Tensor, shares: torch.Tensor, found: torch.Tensor
) -> float:
    """Mean log-likelihood ratio of an edge."""
    return float((((receivers / shares) @ found) * (senders / shares)).sum(1).log().mean())


def believe(
    evidence: torch.Tensor, edge_shares: torch.Tensor, shares: torch.Tensor, graph: Graph
) -> torch.Tensor:
    return (evidence + neighbour_evidence(evidence, edge_shares, shares, graph)).softmax(1)


def test_shares_of_edges_between_known_classes_are_counts():
    graph = mg.datasets.csbm(800, 4, homophily=0.3, shares=(0.2, 0.5, 0.3), seed=0)
    certain = torch.nn.functional.one_hot(graph.y).double()
    found = fitted(*certain[graph.edge_index], certain.mean(0))
    everyone = torch.ones(800, dtype=torch.bool)
    counted = class_edge_shares(graph.y, everyone, graph.edge_index, 3)
    np.testing.assert_allclose(found.T, counted, atol=2e-3)


EDGE_SHARES = torch.tensor([[0.5, 0.2], [0.2, 0.1]]).double()
SHARES = torch.tensor([0.4, 0.6]).double()


def exact_marginal(evidence: torch.Tensor, links: list[tuple[int, int]], root: int) -> np.ndarray:
    """Of one node, by going through all classes of all nodes.

    The tree grows from the root: a neighbour's class is drawn given that of the node before it,
    and a node's evidence is independent of all else given its class.
    """
    given = (EDGE_SHARES / EDGE_SHARES.sum(1, keepdim=True)).numpy()
    likelihood = evidence.exp().numpy() / SHARES.numpy()
    steps, reached = [], [root]
    for node in reached:
        for link in links:
            other = link[link[0] == node]
            if node in link and other not in reached:
                steps.append((node, other))
                reached.append(other)
    total = np.zeros(2)
    for classes in itertools.product(range(2), repeat=len(evidence)):
        weight = float(SHARES[classes[root]])
        weight *= np.prod([given[classes[i], classes[j]] for i, j in steps])
        total[classes[root]] += weight * np.prod([likelihood[i, classes[i]] for i in reached])
    return total / total.sum()


@pytest.mark.parametrize("links", [[(0, 1)], [(0, 1), (1, 2)], [(0, 1), (0, 2), (0, 3)]])
def test_two_rounds_are_exact_on_trees_two_hops_wide(links, monkeypatch):
    monkeypatch.setattr(neighbours, "ROUNDS", 2)
    monkeypatch.setattr(neighbours, "DAMPING", 0.0)
    evidence = torch.from_numpy(np.random.default_rng(0).standard_normal((4, 2)))
    edges = torch.tensor([*links, *((j, i) for i, j in links), (3, 3)]).T
    found = believe(evidence, EDGE_SHARES, SHARES, Graph(evidence, edges))
    for node in range(4):
        expected = exact_marginal(evidence, links, node)
        np.testing.assert_allclose(found[node], expected, rtol=1e-9)


def test_a_directed_graph_has_no_reverse_messages_to_leave_out():
    evidence = torch.from_numpy(np.random.default_rng(1).standard_normal((3, 2)))
    edges = torch.tensor([[1, 2, 0], [0, 0, 0]])
    graph = Graph(evidence, edges)
    assert not graph.reciprocal
    found = believe(evidence, EDGE_SHARES, SHARES, graph)
    np.testing.assert_allclose(found[1:], evidence[1:].softmax(1))
    np.testing.assert_allclose(found[0], exact_marginal(evidence, [(0, 1), (0, 2)], 0))


def test_beliefs_come_true_where_one_class_has_four_times_the_edges():
    """Shares of nodes and of edges' ends differ: messages are relative to those of nodes."""
    nodes, rng = 4000, np.random.default_rng(0)
    y = rng.integers(2, size=nodes)
    ends = [np.flatnonzero(y == c) for c in (0, 1)]
    pairs = rng.choice(4, 8000, p=[0.72, 0.08, 0.08, 0.12])
    sender, receiver = (rng.integers(1 << 40, size=8000) for _ in range(2))
    links = np.stack(
        [
            [ends[p // 2][s % len(ends[p // 2])], ends[p % 2][r % len(ends[p % 2])]]
            for p, s, r in zip(pairs, sender, receiver, strict=True)
        ],
        1,
    )
    logit = 1.0 * (2 * y - 1) + 1.0 * rng.standard_normal(nodes)
    evidence = torch.from_numpy(np.stack([-logit, logit], 1)).log_softmax(1)
    graph = Graph(evidence, torch.from_numpy(np.concatenate([links, links[::-1]], 1)))
    shares = evidence.softmax(1).mean(0)
    found = fitted(*evidence.softmax(1)[graph.edge_index], shares)
    beliefs = believe(evidence, found, shares, graph)
    right = float((beliefs.argmax(1).numpy() == y).mean())
    alone = float((evidence.argmax(1).numpy() == y).mean())
    assert right > alone + 0.03
    assert float(beliefs.amax(1).mean()) == pytest.approx(right, abs=0.03)


def test_the_fit_of_many_classes_does_not_end_early():
    """With 40 classes a cell holds a sixteen-hundredth of the edges; plain EM is the reference."""
    graph = mg.datasets.csbm(2000, 40, homophily=0.7, degree=2.5, shares=(1 / 40,) * 40, seed=0)
    noise = np.random.default_rng(0).standard_normal((2000, 40))
    probs = torch.from_numpy(1.5 * np.eye(40)[graph.y] + 1.5 * noise).softmax(1)
    shares = probs.mean(0)
    senders, receivers = probs[graph.edge_index] / shares
    value = likelihood_of(
        *probs[graph.edge_index], shares, fitted(*probs[graph.edge_index], shares)
    )
    expected = shares[:, None] * shares
    for _ in range(300):
        likelihood = ((receivers @ expected) * senders).sum(1)
        expected = expected * ((receivers / likelihood[:, None]).T @ senders) / len(senders)
    reference = float(((receivers @ expected) * senders).sum(1).log().mean())
    pairs = len(probs) / 2
    assert abs(value - reference) * pairs < 0.5  # of the 2 that make two fits equally plausible


def test_no_edges_give_no_evidence():
    probs = torch.full((3, 2), 0.5).double()
    nothing = torch.zeros(2, 0, dtype=torch.long)
    found = fitted(*probs[nothing], probs.mean(0))
    torch.testing.assert_close(found, torch.full((2, 2), 0.25).double())
    evidence = probs.log()
    torch.testing.assert_close(
        believe(evidence, found, probs.mean(0), Graph(probs, nothing)), probs
    )


def correlated_edges(correlation: float, homophily: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Points of edges' ends [2, E, 1] whose residuals are correlated, and class means at ±1."""
    rng = np.random.default_rng(0)
    first = rng.integers(2, size=20_000)
    second = np.where(rng.random(20_000) < homophily, first, 1 - first)
    rest = rng.standard_normal((2, 20_000))
    rest[1] = correlation * rest[0] + np.sqrt(1 - correlation**2) * rest[1]
    points = np.stack([2 * first - 1 + rest[0], 2 * second - 1 + rest[1]])
    return torch.from_numpy(points)[..., None], torch.tensor([[-1.0], [1.0]]).double()


@pytest.mark.parametrize("homophily", [0.3, 0.5, 0.8])
def test_what_linked_nodes_share_beside_classes_is_not_taken_for_homophily(homophily):
    points, means = correlated_edges(0.4, homophily)
    even = torch.tensor([0.5, 0.5]).double()
    probs = torch.cat([-points, points], 2).softmax(2)
    aware = edge_ends(*probs, even, Residuals(points, means, 0.4))
    assert float(fit_edge_shares(aware, even).trace()) == pytest.approx(homophily, abs=0.03)
    blind = edge_ends(*probs, even)
    assert float(fit_edge_shares(blind, even).trace()) > homophily + 0.08


def test_correlated_ends_have_the_density_of_a_bivariate_normal():
    from scipy.stats import multivariate_normal

    points, means = correlated_edges(0.5, 0.7)
    points = points[:, :50]
    shares = torch.tensor([0.3, 0.7]).double()
    logs = -0.5 * (points - means[:, 0]).square()
    probs = (logs + shares.log()).softmax(2)
    ends = edge_ends(*probs, shares, Residuals(points, means, 0.5))
    found = ends.receivers[:, :, None] * ends.coupling * ends.senders[:, None, :]
    expected = np.stack(
        [
            multivariate_normal([a, b], [[1, 0.5], [0.5, 1]]).pdf(points.flip(0)[..., 0].T.numpy())
            for a in (-1, 1)
            for b in (-1, 1)
        ],
        1,
    )
    ratio = found.reshape(50, 4).numpy() / expected
    np.testing.assert_allclose(ratio, ratio[:, :1].repeat(4, 1), rtol=1e-9)


def noisy_ends(homophily: float, seed: int, nodes: int = 4000):
    """Likelihoods of the ends of a block model's edges, and true class-to-class shares."""
    graph = mg.datasets.csbm(nodes, 2, homophily=homophily, degree=4, seed=seed)
    noise = torch.randn(nodes, generator=torch.Generator().manual_seed(seed)).double()
    logit = 2.0 * (2 * graph.y - 1) + 2.0 * noise
    probs = torch.stack([-logit, logit], 1).div(2).softmax(1)
    shares = torch.full((2,), 0.5).double()
    everyone = torch.ones(nodes, dtype=torch.bool)
    truth = class_edge_shares(graph.y, everyone, graph.edge_index, 2).double()
    return edge_ends(*probs[graph.edge_index], shares), shares, truth


def test_shares_that_did_not_move_are_the_sources():
    ends, shares, _ = noisy_ends(0.7, 1)
    source = noisy_ends(0.7, 2)[2]
    found = shrunk_edge_shares(ends, fit_edge_shares(ends, shares), source, misfit=0.01)
    torch.testing.assert_close(found, source)


def test_shares_that_moved_far_are_the_fitted_ones():
    ends, shares, truth = noisy_ends(0.2, 1)
    source, fitted = noisy_ends(0.8, 2)[2], fit_edge_shares(ends, shares)
    found = shrunk_edge_shares(ends, fitted, source, misfit=0.001)
    torch.testing.assert_close(found, fitted, atol=0.01, rtol=0)
    torch.testing.assert_close(found, truth, atol=0.03, rtol=0)


def test_a_fit_that_errs_on_the_source_is_believed_less():
    ends, shares, _ = noisy_ends(0.55, 1)
    source, fitted = noisy_ends(0.8, 2)[2], fit_edge_shares(ends, shares)
    gain = ends.log_likelihood(fitted) - ends.log_likelihood(source)
    found = shrunk_edge_shares(ends, fitted, source, misfit=0.25 * gain)
    kept = float((found - fitted).norm() / (source - fitted).norm())
    assert kept == pytest.approx(0.25, abs=0.01)
