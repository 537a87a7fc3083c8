"""Accuracy from answers is unbiased, and its interval holds the truth as often as it says."""

import numpy as np
import pytest

from matcha_gnn.evidence.posterior import Interval
from matcha_gnn.questions.decision import Design, decide
from matcha_gnn.questions.estimates import (
    combined,
    importance_weights,
    share_estimate,
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
    assert np.isnan(verdict.accuracies[0].value)
    assert (verdict.accuracies[0].low, verdict.accuracies[0].high) == (0, 1)
    assert np.isnan(share_estimate(np.zeros(0), np.zeros(0), 10).value)


def test_a_part_of_which_nothing_is_known_adds_all_of_its_share():
    unknown = Interval(np.nan, 0.0, 1.0)
    found = combined([Interval(0.5, 0.5, 0.5), unknown], [0.9, 0.1])
    assert np.isnan(found.value)
    assert found[1:] == pytest.approx((0.45, 0.55))
    assert combined([Interval(0.5, 0.4, 0.6), unknown], [1.0, 0.0]) == (0.5, 0.4, 0.6)


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
