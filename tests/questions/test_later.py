"""Candidates that are made from answers: the error rate holds however they are made."""

from functools import partial

import numpy as np
import pytest
from test_sequential import REPETITIONS, orders, world, wrong_prior

from matcha_gnn.questions.decision import FITTED_AT, Design, Later, choose, decide
from matcha_gnn.questions.fitting import complete_starts
from matcha_gnn.questions.sampling import ERROR_RATE, MARGIN, believed_gains
from matcha_gnn.questions.sequential import Bets, adjusted

START, COUNT = FITTED_AT[0], 60
LIMIT = ERROR_RATE + 3 * np.sqrt(ERROR_RATE / REPETITIONS)


def overfitted(labels, truth, known, rng, *, unasked=0, wins=20):
    """Right at every known node, and worse than the source by exactly the margin over all nodes.

    So many of its losses are at nodes on which the other candidates agree.
    """
    source, number = labels[0], labels.shape[1]
    found = source.copy()
    found[known] = truth[known]
    disputed = (labels != source).any(0)
    free = np.ones(number, dtype=bool)
    free[known] = False
    wrong = rng.permutation(np.flatnonzero(free & disputed & (source != truth)))
    right = rng.permutation(np.flatnonzero(free & disputed & (source == truth)))
    hidden = rng.permutation(np.flatnonzero(~disputed & (source == truth)))[:unasked]
    found[wrong[:wins]] = truth[wrong[:wins]]
    gained = int((source[known] != truth[known]).sum()) + wins
    lost = np.concatenate([hidden, right])[: gained + round(MARGIN * number)]
    found[lost] = (truth[lost] + 1) % 3
    return found


def bad_where_others_do_well(labels, truth, known, rng):
    """Worse by the margin if the first candidate has gained at known nodes; else the truth."""
    gains = (labels[1] == truth).astype(int) - (labels[0] == truth)
    return overfitted(labels, truth, known, rng) if gains[known].sum() > 0 else truth.copy()


MADE = {
    "overfitted": overfitted,
    "overfitted, many wins": partial(overfitted, wins=150),
    "losses where nobody asks": partial(overfitted, unasked=80, wins=80),
    "bad where others do well": bad_where_others_do_well,
}


def errors(make, prior=None, start=START):
    """Shares of runs in which a candidate that is worse by the margin is permitted.

    Of all candidates together, of the later one if it had the whole error rate, and in which the
    later one is worse by the margin.
    """
    labels, truth = world([0.45, 0.3], [-MARGIN] * 2)
    design = Design(labels, None if prior is None else prior(labels, truth))
    nodes = orders(design.weights, COUNT)
    gains = (labels == truth).astype(float) - (labels[0] == truth)
    rows = np.zeros((2 + len(FITTED_AT), REPETITIONS, COUNT))
    for k in (1, 2):
        beliefs = None if prior is None else believed_gains(labels, design.prior)[k - 1]
        bets = Bets(nodes, design.weights, labels[k] != labels[0], beliefs)
        rows[k - 1] = bets.wealth(gains[k][nodes], -MARGIN * len(truth))
    bad, rng = np.zeros(REPETITIONS, dtype=bool), np.random.default_rng(1)
    disputed = design.weights > 0
    for run, asked in enumerate(nodes):
        made = make(labels, truth, asked[:START], rng)
        gain = (made == truth).astype(float) - (labels[0] == truth)
        bad[run] = gain.sum() <= -MARGIN * len(truth)
        changed = made != labels[0]
        # It is sure of all that it changes.
        bets = Bets(asked, design.weights, changed & disputed, changed.astype(float), start)
        unasked = int((changed & ~disputed).sum())
        rows[2, run] = bets.wealth(gain[asked], unasked - MARGIN * len(truth))
    found = adjusted(rows, design.error_shares, len(FITTED_AT)).max(-1) >= 1 / ERROR_RATE
    alone = rows[2].max(-1) >= 1 / ERROR_RATE
    return (found[:2].any(0) | (found[2] & bad)).mean(), (alone & bad).mean(), bad.mean()


@pytest.mark.parametrize("name", MADE)
def test_candidates_that_know_the_answers_are_taken_in_at_most_one_of_twenty_runs(name):
    together, alone, bad = errors(MADE[name])
    assert together <= LIMIT
    assert 0 < alone <= LIMIT
    assert bad > 0.2


def test_the_error_rate_holds_with_wrong_evidence_too():
    together, alone, _ = errors(overfitted, wrong_prior)
    assert max(together, alone) <= LIMIT


def test_bets_on_answers_that_it_was_made_from_would_break_the_test():
    together, alone, _ = errors(overfitted, start=0)
    assert together > 4 * ERROR_RATE
    assert alone > 0.9


@pytest.fixture(scope="module")
def gaining():
    """Candidates that gain a little, and one that is right wherever they are not."""
    labels, truth = world([0.4, 0.3], [0.12, 0.0], zeros=0.3)
    return Design(labels, None, seed=1), truth


def answered(design, truth, count):
    asked = design.order(count)
    return asked, {int(node): int(truth[node]) for node in asked}


def almost_right(truth, start=START):
    return Later(0.9 * np.eye(3)[truth] + 0.1 / 3, start)


def test_a_much_better_candidate_is_taken_by_later_answers(gaining):
    design, truth = gaining
    early = answered(design, truth, START)
    verdict = decide(design, *early, [almost_right(truth)])
    assert verdict.taken == 0
    assert verdict.wealths[-1] < 1 / ERROR_RATE
    asked, answers = answered(design, truth, 80)
    verdict = decide(design, asked, answers, [almost_right(truth)])
    assert (verdict.taken, verdict.permitted[-1]) == (3, True)
    assert choose(design, asked, answers, [almost_right(truth)]) == 3
    assert len(verdict.gains) == len(verdict.accuracies) == len(verdict.wealths) == 4
    disputed = design.weights > 0
    true = (design.labels[0] != truth)[disputed].sum() / len(truth)
    assert verdict.gains[-1].low <= true <= verdict.gains[-1].high
    assert verdict.gains[-1].value == pytest.approx(true, abs=0.05)


def test_answers_that_a_candidate_was_made_from_say_nothing_of_it(gaining):
    design, truth = gaining
    asked, answers = answered(design, truth, 40)
    lucky = design.labels[0].copy()
    lucky[asked[:START]] = truth[asked[:START]]
    safe = (design.weights > 0) & (design.labels[0] == truth)
    others = np.setdiff1d(np.flatnonzero(safe), asked)[:100]
    lucky[others] = (truth[others] + 1) % 3
    verdict = decide(design, asked, answers, [Later(np.eye(3)[lucky], START)])
    assert verdict.wealths[-1] <= 1
    assert verdict.taken != 3


def test_what_all_others_agree_on_counts_as_lost(gaining):
    design, truth = gaining
    asked, answers = answered(design, truth, 80)
    far = almost_right(truth)
    agreed = np.flatnonzero((design.weights == 0) & (design.labels[0] == truth))[:100]
    far.probs[agreed] = np.eye(3)[(truth[agreed] + 1) % 3]
    near, wide = (decide(design, asked, answers, [each]) for each in (almost_right(truth), far))
    assert wide.wealths[-1] < near.wealths[-1]
    assert wide.gains[-1].low < near.gains[-1].low - 0.05


def test_a_candidate_that_differs_from_the_best_in_nothing_is_not_taken_over_it(gaining):
    design, truth = gaining
    asked, answers = answered(design, truth, 200)
    alone = choose(design, asked, answers)
    same = Later(np.eye(3)[design.labels[1]], START)
    assert choose(design, asked, answers, [same]) == alone == 1


def test_candidates_are_fitted_only_to_questions_without_a_gap():
    asked = np.arange(120)
    answers = dict.fromkeys(range(120), 0)
    assert complete_starts(asked, answers) == list(FITTED_AT)
    assert complete_starts(asked[:19], answers) == []
    del answers[30]
    assert complete_starts(asked, answers) == [20]
    del answers[5]
    assert complete_starts(asked, answers) == []
