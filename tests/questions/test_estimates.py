"""Accuracy from answers is unbiased, and its interval holds the truth as often as it says."""

import numpy as np
import pytest
from scipy import stats

from matcha_gnn.evidence.posterior import NORMAL_90, Interval
from matcha_gnn.questions.decision import Design, decide
from matcha_gnn.questions.estimates import (
    beta_of,
    importance_weights,
    updated_share,
    weighted_mean,
)
from matcha_gnn.questions.sampling import (
    AGREED_EVERY,
    MARGIN,
    candidate_shares,
    draw_order,
    node_weights,
)
from matcha_gnn.questions.sequential import Bets


@pytest.fixture(scope="module")
def world():
    """A source and two candidates, one better and one worse, on 500 nodes of four classes."""
    rng = np.random.default_rng(0)
    truth = rng.integers(4, size=500)
    labels = np.stack([truth] * 3)
    for row, (share, wrong) in enumerate([(0.3, 1), (0.2, 1), (0.5, 2)]):
        at = rng.random(500) < share
        labels[row, at] = (truth[at] + wrong) % 4
    return labels, truth


def repeated(labels, count, number):
    design = Design(labels, None)
    orders = [draw_order(design.weights, count, seed) for seed in range(number)]
    return design, np.stack(orders)


@pytest.mark.parametrize("count", [10, 40])
def test_weighted_means_are_unbiased(world, count):
    labels, truth = world
    design, nodes = repeated(labels, count, 4000)
    inside = design.weights > 0
    bets = Bets(nodes, design.weights, inside)
    # Drawn far from evenly, or there would be nothing to correct.
    assert bets.ratio.max() > 1.5 * bets.ratio.min()
    weights = importance_weights(bets.ratio, bets.hit, bets.size)
    for row in labels:
        hits = (row == truth).astype(float)
        found = weighted_mean(hits[nodes], weights)
        error = found.std() / np.sqrt(len(found))
        assert found.mean() == pytest.approx(hits[inside].mean(), abs=4 * error)
    plain = (labels[2, nodes] == truth[nodes]).astype(float)
    naive = (plain * bets.hit).sum(1) / bets.hit.sum(1)
    assert abs(naive.mean() - (labels[2] == truth)[inside].mean()) > 0.02


@pytest.mark.parametrize("count", [20, 60])
def test_intervals_hold_the_truth_nine_times_in_ten(world, count):
    labels, truth = world
    design, orders = repeated(labels, count, 300)
    accuracies = (labels == truth).mean(1)
    true = np.stack([accuracies, accuracies - accuracies[0]])
    covered = np.zeros((2, 3))
    for asked in orders:
        verdict = decide(design, asked, {int(n): int(truth[n]) for n in asked})
        _, low, high = np.moveaxis(np.array([verdict.accuracies, verdict.gains]), 2, 0)
        covered += (low <= true + 1e-9) & (true - 1e-9 <= high)
    assert (covered / 300 >= 0.87).all()


def test_what_evidence_said_narrows_accuracies_that_still_hold_the_truth():
    rng = np.random.default_rng(0)
    prior = rng.dirichlet([0.3] * 4, size=500)
    truth = (prior.cumsum(1) < rng.random((500, 1))).sum(1)
    noisy = [prior + rng.gumbel(size=prior.shape) * noise for noise in (0.3, 0.1, 0.6)]
    labels = np.stack([each.argmax(1) for each in noisy])
    own = prior[np.arange(500), labels[0]].mean()
    # Off by as much as its bounds allow.
    believed = Interval(own + 0.05, own - 0.1, own + 0.13)
    design, covered, widths = Design(labels, prior), np.zeros(3), np.zeros(2)
    for seed in range(100):
        asked = draw_order(design.weights, 20, seed)
        known = {int(n): int(truth[n]) for n in asked}
        alone, both = (decide(design, asked, known, None, each) for each in (None, believed))
        _, low, high = np.array(both.accuracies).T
        true = (labels == truth).mean(1)
        covered += (low <= true) & (true <= high)
        widths += [each.accuracies[0].high - each.accuracies[0].low for each in (alone, both)]
        assert (alone.taken, alone.gains) == (both.taken, both.gains)
    assert (covered >= 90).all()
    assert widths[1] < 0.6 * widths[0]


def test_evidence_that_answers_contradict_is_not_believed(world):
    labels, truth = world
    prior = np.eye(4)[(truth + 3) % 4]
    design = Design(labels, prior)
    asked = design.order(40)
    known = {int(n): int(truth[n]) for n in asked}
    wrong = Interval(0.0, 0.0, 0.05)
    assert decide(design, asked, known, None, wrong) == decide(design, asked, known)


def test_intervals_shrink_and_end_at_the_truth(world):
    labels, truth = world
    design = Design(labels, None)
    widths = []
    for count in (20, 100, 500):
        asked = design.order(count)
        verdict = decide(design, asked, {int(n): int(truth[n]) for n in asked})
        widths.append(verdict.accuracies[1].high - verdict.accuracies[1].low)
    assert widths[0] > widths[1] > widths[2]
    assert verdict.accuracies[1] == pytest.approx([(labels[1] == truth).mean()] * 3)
    gain = (labels[1] == truth).mean() - (labels[0] == truth).mean()
    assert verdict.gains[1].value == pytest.approx(gain)
    assert verdict.taken == 1


def test_without_an_answer_nothing_is_known(world):
    labels, _ = world
    verdict = decide(Design(labels, None), np.array([3, 4]), {})
    assert (verdict.taken, verdict.answered, verdict.more) == (0, 0, None)
    value, low, high = verdict.accuracies[0]
    assert value == pytest.approx(0.5)
    assert low < 0.01
    assert high > 0.99


def test_a_share_is_updated_as_bayes_does():
    believed = Interval(0.8, 0.65, 0.95)
    counts = beta_of(believed)
    assert stats.beta(*counts).mean() == pytest.approx(0.8)
    assert stats.beta(*counts).std() == pytest.approx(0.3 / (2 * NORMAL_90))
    points = np.linspace(0.0005, 0.9995, 1000)
    density = stats.beta(*counts).pdf(points) * stats.binom(7, points).pmf(3)
    density /= density.sum()
    found = updated_share(3, 7, 100, counts)
    assert found.value == pytest.approx((points * density).sum(), abs=1e-3)
    below = density.cumsum()[[np.searchsorted(points, each) for each in found[1:]]]
    assert below == pytest.approx([0.05, 0.95], abs=0.01)
    assert updated_share(3, 7, 7, counts) == Interval(3 / 7, 3 / 7, 3 / 7)


def test_every_tenth_question_is_about_an_undisputed_node(world):
    labels, _ = world
    design = Design(labels, None)
    asked = design.order(60)
    agreed = np.flatnonzero(design.weights[asked] == 0) + 1
    assert agreed.tolist() == list(range(AGREED_EVERY, 61, AGREED_EVERY))
    assert len(set(asked.tolist())) == 60
    assert np.array_equal(design.order(25), asked[:25])
    assert sorted(design.order(10_000).tolist()) == list(range(500))


def test_nodes_are_shared_out_among_candidates():
    labels = np.zeros((4, 1000), dtype=np.int64)
    labels[1, :500], labels[2, 500:550], labels[3, 990:995] = 1, 1, 1
    shares = candidate_shares(labels, None)
    assert shares.tolist() == [0.5, 0.5, 0.0]
    assert labels[3].mean() < MARGIN < labels[2].mean()
    weights = node_weights(labels, shares)
    assert weights[:500].sum() == pytest.approx(weights[500:550].sum())
    assert 0 < weights[990] <= weights[weights > 0].min()
    assert weights[600] == 0
    assert node_weights(labels[[0, 3]], np.zeros(1))[990:995].tolist() == [1.0] * 5


def test_evidence_moves_shares_and_never_takes_all():
    labels = np.zeros((3, 100), dtype=np.int64)
    labels[1, :40], labels[2, 40:80] = 1, 1
    prior = np.full((100, 2), 0.5)
    prior[:40] = [0.1, 0.9]
    sure = candidate_shares(labels, prior)
    assert sure == pytest.approx([0.95, 0.05])
    assert candidate_shares(labels, 1 - prior) == pytest.approx([0.5, 0.5])


def test_a_candidate_that_changes_almost_nothing_is_permitted_without_a_test():
    labels = np.zeros((2, 1000), dtype=np.int64)
    labels[1, :8] = 1
    design = Design(labels, None)
    asked = design.order(10)
    right = decide(design, asked, dict.fromkeys(asked.tolist(), 1))
    assert (right.taken, right.permitted) == (1, (True, True))
    wrong = decide(design, asked, dict.fromkeys(asked.tolist(), 0))
    assert (wrong.taken, wrong.permitted) == (0, (True, True))
