"""Metrics of the user's choice: scikit-learn's values, and estimates that hold."""

from functools import cached_property

import numpy as np
import pytest
import torch
from sklearn import metrics

from matcha_gnn.errors import InvalidArgumentError
from matcha_gnn.evidence.goals import METRICS, Accuracy, Wanted, expected_confusion
from matcha_gnn.evidence.posterior import Posterior
from matcha_gnn.evidence.rating import rater_of
from matcha_gnn.evidence.trust import Trust
from matcha_gnn.metrics import average_precision

SKLEARN = {
    "accuracy": lambda truth, probs: metrics.accuracy_score(truth, probs.argmax(1)),
    "balanced_accuracy": lambda truth, probs: metrics.balanced_accuracy_score(
        truth, probs.argmax(1)
    ),
    "macro_f1": lambda truth, probs: metrics.f1_score(truth, probs.argmax(1), average="macro"),
    "f1": lambda truth, probs: metrics.f1_score(truth == 1, probs.argmax(1) == 1),
    "average_precision": lambda truth, probs: metrics.average_precision_score(
        truth == 1, probs[:, 1]
    ),
}


class Known:
    """Stands in for what a source has measured: nothing is wrong with its estimates."""

    estimate_error = 0.0
    held_out = 0


class Right(Posterior):
    """A posterior whose model is right."""

    trust = Trust(0.0, 0.0, 0.0, 0.0, 0.0, 900)

    @cached_property
    def evidence(self):
        return self.probs.log()


def posterior_of(probs):
    return Right(probs, None, Known())


def drawn(number, classes, seed, rare=0.0):
    """Probabilities that are right: classes are drawn by them."""
    chance = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(number, classes, generator=chance, dtype=torch.float64)
    logits[:, -1] -= rare
    probs = logits.softmax(1)
    truth = torch.multinomial(probs, 1, generator=chance)[:, 0]
    noise = torch.randn(number, classes, generator=chance, dtype=torch.float64)
    return probs, truth, (logits + 2 * noise).softmax(1)


def goal_of(metric, classes):
    wanted = Wanted(metric, 1) if metric in ("f1", "average_precision") else Wanted(metric)
    return wanted.goal(classes, None)


@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("metric", METRICS)
def test_scores_are_those_of_scikit_learn(metric, classes):
    for seed in range(5):
        _, truth, candidate = drawn(200, classes, seed, rare=3.0)
        truth = truth if seed else truth.clamp_max(classes - 2)
        expected = SKLEARN[metric](truth.numpy(), candidate.numpy())
        assert goal_of(metric, classes).score(truth, candidate) == pytest.approx(expected)


def test_average_precision_takes_equal_scores_at_once():
    scores = torch.tensor([0.5, 0.5, 0.9, 0.1, 0.5, 0.1])
    true = torch.tensor([True, False, False, True, True, False])
    expected = metrics.average_precision_score(true.numpy(), scores.numpy())
    assert average_precision(scores, true) == pytest.approx(expected)
    assert average_precision(scores, torch.zeros(6, dtype=torch.bool)) == 0.0


@pytest.mark.parametrize("metric", METRICS)
def test_estimates_and_intervals_hold_where_the_posterior_is_right(metric):
    errors, inside = [], []
    for seed in range(20):
        probs, truth, candidate = drawn(2000, 3, seed, rare=2.0)
        goal = goal_of(metric, 3)
        rater = rater_of(goal, posterior_of(probs))
        rated, before = rater.rate(candidate), rater.rate(probs)
        value, gain = rater.value(rated), rater.gain(rated, before)
        true = goal.score(truth, candidate)
        errors.append(value.value - true)
        inside.append(value.low <= true <= value.high)
        inside.append(gain.low <= true - goal.score(truth, probs) <= gain.high)
    assert abs(np.mean(errors)) < 0.006
    assert np.abs(errors).max() < 0.05
    assert np.mean(inside) >= 0.9


def test_an_accuracy_may_be_as_high_as_evidence_without_the_network_says():
    probs, _, candidate = drawn(500, 3, 0)
    labels = candidate.argmax(1)
    usual = posterior_of(probs)
    sure = posterior_of(probs)
    sure.__dict__["evidence"] = torch.nn.functional.one_hot(labels, 3).double().log()
    assert sure.accuracy(labels).high == 1
    assert sure.accuracy(labels)[:2] == usual.accuracy(labels)[:2]
    assert usual.accuracy(labels).high < 1


def test_the_delta_method_gives_the_bounds_of_accuracy():
    probs, _, candidate = drawn(500, 3, 0)
    posterior = posterior_of(probs)
    counted = type("Counted accuracy", (Accuracy.__mro__[1],), {"value": Accuracy.value})
    counted.name = "counted"
    exact, delta = rater_of(Accuracy(), posterior), rater_of(counted(), posterior)
    old, new = exact.rate(probs), exact.rate(candidate)
    other_old, other_new = delta.rate(probs), delta.rate(candidate)
    assert delta.value(other_new) == pytest.approx(exact.value(new), abs=1e-3)
    assert delta.gain(other_new, other_old) == pytest.approx(exact.gain(new, old), abs=1e-9)


def test_labels_for_a_metric_are_the_best_for_it():
    probs, _, _ = drawn(2000, 2, 0, rare=4.0)
    for metric in ("f1", "balanced_accuracy"):
        goal = goal_of(metric, 2)
        biased = (probs.log() + torch.tensor(goal.bias(probs))).softmax(1)
        values = []
        for threshold in torch.linspace(0.02, 0.98, 97):
            labels = (probs[:, 1] > threshold).long()
            values.append(float(goal.value(expected_confusion(labels, probs))))
        best = float(goal.value(expected_confusion(biased.argmax(1), probs)))
        assert best >= max(values) - 1e-4
        assert best > float(goal.value(expected_confusion(probs.argmax(1), probs)))
    assert goal_of("macro_f1", 2).bias(probs) is None
    assert goal_of("f1", 3).bias(drawn(50, 3, 0)[0]) is None


def test_the_rarer_of_two_classes_is_positive():
    shares = torch.tensor([0.05, 0.95])
    assert Wanted("f1").goal(2, shares).positive == 0
    assert Wanted("f1", "spam", ("ham", "spam")).goal(2, shares).title == "F1 of spam"
    assert Wanted("f1", "1", ("ham", "spam")).goal(2, None).positive == 1
    for wanted, number, known in ((Wanted("f1"), 3, shares), (Wanted("f1"), 2, None)):
        with pytest.raises(InvalidArgumentError, match="^positive: got None; allowed: the class"):
            wanted.goal(number, known)
