"""The test holds its error rate whatever the graph, the evidence and the person are like."""

import numpy as np
import pytest

from matcha_gnn.questions.decision import Design, choose, decide
from matcha_gnn.questions.sampling import ERROR_RATE, MARGIN, believed_gains
from matcha_gnn.questions.sequential import Bets, adjusted, lower_bound

REPETITIONS = 10_000


def world(changed, gain, *, nodes=1200, zeros=0.0, classes=3, seed=0):
    """Labels [M, N] and the truth [N]: each candidate changes a share of labels and gains so much.

    A share `zeros` of what is changed was wrong and stays wrong.
    """
    rng = np.random.default_rng(seed)
    truth = rng.integers(classes, size=nodes)
    # Wrong where a later candidate is going to be right.
    labels = np.tile(truth, (1 + len(changed), 1))
    labels[0, : nodes // 2] = (truth[: nodes // 2] + 1) % classes
    for row, (share, points) in enumerate(zip(changed, gain, strict=True), 1):
        number = round(share * nodes)
        neutral = round(zeros * number)
        up = round((number - neutral + points * nodes) / 2)
        down = number - neutral - up
        first = rng.permutation(nodes // 2)
        wins, still = first[:up], first[up : up + neutral]
        losses = nodes // 2 + rng.permutation(nodes // 2)[:down]
        labels[row] = labels[0]
        labels[row, wins] = truth[wins]
        labels[row, still] = (truth[still] + 2) % classes
        labels[row, losses] = (truth[losses] + 1) % classes
        found = (labels[row] == truth).mean() - (labels[0] == truth).mean()
        assert found == pytest.approx(points, abs=2 / nodes)
    return labels, truth


def wrong_prior(labels, truth, classes=3):
    """Sure of the last candidate's labels wherever it differs from the source, and else of none."""
    prior = np.full((labels.shape[1], classes), 1 / classes)
    apart = labels[-1] != labels[0]
    prior[apart] = np.eye(classes)[labels[-1, apart]]
    return prior


def helpful_prior(labels, truth, classes=3):
    """Knows the truth: the bets are as large as they get where the candidate gains."""
    return 0.98 * np.eye(classes)[truth] + 0.02 / classes


def even_prior(labels, truth, classes=3):
    return None


def orders(weights, count, seed=0):
    """Many orders of the disputed nodes at once, as `draw_order` draws one, [R, T]."""
    disputed = np.flatnonzero(weights)
    keys = np.random.default_rng(seed).exponential(size=(REPETITIONS, len(disputed)))
    return disputed[(keys / weights[disputed]).argsort(1)[:, :count]]


def wealths(labels, truth, prior, count, hide=None):
    """Adjusted wealth after every answer, [M − 1, R, T]; `hide` turns gains into those shown."""
    design = Design(labels, prior)
    nodes = orders(design.weights, count)
    right = (labels[:, nodes] == truth[nodes]).astype(float)
    found = []
    for k in range(1, len(labels)):
        beliefs = None if prior is None else believed_gains(labels, prior)[k - 1]
        bets = Bets(nodes, design.weights, labels[k] != labels[0], beliefs)
        gains = right[k] - right[0]
        gains = gains if hide is None else hide(gains)
        found.append(bets.wealth(gains, -MARGIN * labels.shape[1]))
    return adjusted(np.stack(found), design.shares)


CASES = {
    "few labels changed": ([0.03] * 4, 0.0),
    "many labels changed": ([0.45] * 4, 0.0),
    "all kinds": ([0.02, 0.05, 0.2, 0.4], 0.0),
    "most changes are neutral": ([0.3, 0.3, 0.4], 0.7),
    "one candidate": ([0.1], 0.0),
}


@pytest.mark.parametrize("prior", [wrong_prior, helpful_prior, even_prior])
@pytest.mark.parametrize("name", CASES)
def test_looking_after_every_answer_errs_in_at_most_one_of_twenty_runs(name, prior):
    changed, zeros = CASES[name]
    # As little worse as the hypothesis allows: the hardest to tell from what is permitted.
    labels, truth = world(changed, [-MARGIN] * len(changed), zeros=zeros)
    found = wealths(labels, truth, prior(labels, truth), 60)
    ever = (found >= 1 / ERROR_RATE).any((0, 2)).mean()
    assert ever <= ERROR_RATE + 3 * np.sqrt(ERROR_RATE / REPETITIONS)


@pytest.mark.parametrize("prior", [wrong_prior, helpful_prior])
def test_a_small_graph_that_is_asked_through_keeps_the_error_rate(prior):
    labels, truth = world([0.1, 0.3, 0.4], [-0.02] * 3, nodes=100)
    found = wealths(labels, truth, prior(labels, truth), 100)
    assert (found >= 1 / ERROR_RATE).any((0, 2)).mean() <= ERROR_RATE


def test_wealth_never_falls_when_an_answer_gets_better():
    rng = np.random.default_rng(0)
    inside, weights = rng.random(200) < 0.4, rng.random(200) + 0.05
    nodes = orders(weights, 60)[0]
    bets = Bets(nodes, weights, inside, rng.uniform(-1, 1, 200))
    gains = rng.integers(-1, 2, (2000, 60)).astype(float)
    better = np.minimum(gains + rng.integers(0, 2, gains.shape), 1)
    low, high = bets.wealth(gains, -2.0), bets.wealth(better, -2.0)
    assert (low <= high * (1 + 1e-9)).all()
    assert (low < high).mean() > 0.9


def test_wealth_is_a_martingale_at_the_edge_of_the_hypothesis():
    labels, truth = world([0.1], [-MARGIN], nodes=400)
    design = Design(labels, helpful_prior(labels, truth))
    nodes = orders(design.weights, 5)
    gains = (labels[1, nodes] == truth[nodes]) - (labels[0, nodes] == truth[nodes]).astype(float)
    beliefs = believed_gains(labels, design.prior)[0]
    bets = Bets(nodes, design.weights, labels[1] != labels[0], beliefs)
    wealth = bets.wealth(gains, -MARGIN * 400)[:, -1]
    assert wealth.mean() == pytest.approx(1, abs=4 * wealth.std() / np.sqrt(REPETITIONS))
    assert wealth.std() > 0.5


def test_a_good_candidate_is_permitted_soon():
    labels, truth = world([0.3, 0.3, 0.3], [0.2, -0.1, -0.1])
    found = wealths(labels, truth, None, 80)
    permitted = (found >= 1 / ERROR_RATE).any(2).mean(1)
    assert permitted[0] > 0.9
    assert (permitted[1:] < 0.001).all()


def test_a_hypothesis_that_has_become_impossible_is_rejected():
    bets = Bets(np.array([0, 1, 2]), np.ones(4), np.ones(4, dtype=bool))
    assert np.isinf(bets.wealth(np.array([1.0, 1.0, 1.0]), -1.0)[-1])
    assert np.isfinite(bets.wealth(np.array([1.0, -1.0, 1.0]), -1.0)[-1])


def test_the_adjustment_is_the_smallest_mean_over_groups():
    rng = np.random.default_rng(0)
    wealth, shares = rng.exponential(10, 4), np.array([0.4, 0.3, 0.2, 0.1])
    groups = [[k for k in range(4) if number >> k & 1] for number in range(1, 16)]
    means = {tuple(g): wealth[g] @ shares[g] / shares[g].sum() for g in groups}
    for k, found in enumerate(adjusted(wealth, shares)):
        assert found == pytest.approx(min(mean for g, mean in means.items() if k in g))


def test_bounds_of_a_gain_hold_at_any_time():
    labels, truth = world([0.3], [0.05])
    design, inside = Design(labels, None), labels[1] != labels[0]
    gains = (labels[1] == truth).astype(float) - (labels[0] == truth)
    high = 0
    for nodes in orders(design.weights, 50)[:400]:
        bets = Bets(nodes, design.weights, inside)
        high += lower_bound(bets, gains[nodes], 0.05) > gains[inside].mean()
    assert high / 400 <= 0.05 + 3 * np.sqrt(0.05 / 400)


def test_the_decision_uses_questions_in_their_order_whatever_is_answered():
    labels, truth = world([0.4], [0.25])
    design = Design(labels, None, seed=1)
    asked = design.order(30)
    answers = {int(node): int(truth[node]) for node in asked}
    backwards = dict(reversed(answers.items()))
    assert decide(design, asked, answers) == decide(design, asked, backwards)
    whole = decide(design, asked, answers)
    gap = decide(design, asked, {n: y for i, (n, y) in enumerate(answers.items()) if i != 3})
    assert (whole.taken, whole.skipped, gap.skipped, gap.answered) == (1, 0, 1, 29)
    assert choose(design, asked, answers) == 1
    assert gap.wealths[1] < whole.wealths[1]
    early = decide(design, asked, dict(list(answers.items())[:10]))
    assert (early.answered, early.skipped) == (10, 0)
