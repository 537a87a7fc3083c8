"""Estimates of a goal for candidates, from the probabilities of the true classes.

Bounds hold if the odds of any one class are off by `CLASS_ODDS`, and contain chance and the error
of the model (`trust`): as a share of labels, times what the goal loses with each share of labels
that are not true (`per_error`). Goals of counts have a closed form: the goal of the expected
counts, and the variance of its linear part (the delta method). Other goals are averages over
classes that are drawn from the posterior.
"""

import abc
import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from matcha_gnn.evidence.goals import Accuracy, AveragePrecision, Counted, Goal, expected_confusion
from matcha_gnn.evidence.posterior import NORMAL_90, Interval, Posterior, perturbed
from matcha_gnn.evidence.trust import UPWARD
from matcha_gnn.streams import Purpose, torch_stream
from matcha_gnn.typing import Probs

DRAWS = 20
"""How often the classes of all nodes are drawn for a goal that has no closed form."""
PERTURBED_DRAWS = 4
"""The same where the odds of a class are off: differences to the same draws as they are."""
MOST_DRAWN = 50_000
"""Nodes whose classes are drawn at most."""


def per_error(perfect: float, value: float, accuracy: float) -> float:
    """What a goal loses with each share of labels that are not true.

    Args:
        perfect: the goal if all labels were true.
        value: the estimate.
        accuracy: estimated share of true labels.

    Example:
        >>> per_error(1.0, 0.8, 0.9)
        2.0
    """
    return max(0.0, perfect - value) / max(1 - accuracy, 1e-3)


class Rater(abc.ABC):
    """Estimates one goal of candidates on one target."""

    @abc.abstractmethod
    def rate(self, probs: Probs, labels: Tensor | None = None) -> Any:
        """All that is needed of a candidate.

        Args:
            probs: its class probabilities, [N, C].
            labels: its most probable classes, [N], where they are at hand.
        """

    @abc.abstractmethod
    def value(self, rated: Any) -> Interval:
        """The goal of a candidate."""

    @abc.abstractmethod
    def gain(self, rated: Any, over: Any) -> Interval:
        """By how much the goal is more than another candidate's."""


def rater_of(goal: Goal, posterior: Posterior) -> Rater:
    """What estimates a goal."""
    if isinstance(goal, Accuracy):
        return _AccuracyRater(posterior)
    if isinstance(goal, Counted):
        return _CountedRater(goal, posterior)
    assert isinstance(goal, AveragePrecision), goal
    return _DrawnRater(goal, posterior)


@dataclass(frozen=True)
class _AccuracyRater(Rater):
    """Accuracy is a mean over nodes: its bounds are exact, and nodes that agree cancel."""

    posterior: Posterior

    def rate(self, probs: Probs, labels: Tensor | None = None) -> Tensor:
        return probs.argmax(1) if labels is None else labels

    def value(self, rated: Tensor) -> Interval:
        return self.posterior.accuracy(rated)

    def gain(self, rated: Tensor, over: Tensor) -> Interval:
        return self.posterior.gain(rated, over)


@dataclass(frozen=True, eq=False)
class _Counts:
    """Of a candidate.

    Attributes:
        labels: its classes, [N].
        values: the goal of its expected counts, as they are and for each perturbation, [1 + 2 C].
        slopes: derivative of the first by the counts, [C, C].
        per_error: see `per_error`.
    """

    labels: Tensor
    values: Tensor
    slopes: Tensor
    per_error: float


@dataclass(frozen=True)
class _CountedRater(Rater):
    goal: Counted
    posterior: Posterior

    def rate(self, probs: Probs, labels: Tensor | None = None) -> _Counts:
        labels, known = probs.argmax(1) if labels is None else labels, self.posterior.probs
        tables = [expected_confusion(labels, p) for p in (known, *perturbed(known))]
        counts = torch.stack(tables)
        with torch.enable_grad():
            point = counts[0].clone().requires_grad_(True)
            (slopes,) = torch.autograd.grad(self.goal.value(point), point)
        values = self.goal.value(counts)
        accuracy = float(counts[0].trace() / counts[0].sum())
        return _Counts(labels, values, slopes, per_error(1.0, float(values[0]), accuracy))

    def value(self, rated: _Counts) -> Interval:
        chance = self._chance(rated.slopes[rated.labels.to(rated.slopes.device)])
        around = chance + self._error(rated.slopes)
        middle, low, high = _around(rated.values, around)
        trust = self.posterior.trust
        off, middle = trust.error * rated.per_error, middle - trust.bias * rated.per_error
        return Interval(max(middle, 0.0), max(0.0, low - off), min(1.0, high + UPWARD * off))

    def gain(self, rated: _Counts, over: _Counts) -> Interval:
        place = rated.slopes.device
        rows = rated.slopes[rated.labels.to(place)] - over.slopes[over.labels.to(place)]
        changed = float((rated.labels != over.labels).double().mean())
        # Of a rare class F1 may be lost on nodes whose label stays, too, as the slopes there tell.
        spread = 0.5 * float((rows.amax(1) - rows.amin(1)).sum())
        lost = max(changed * max(rated.per_error, over.per_error), spread)
        off = self.posterior.trust.error * lost
        return _around(rated.values - over.values, self._chance(rows) + off)

    def _error(self, slopes: Tensor) -> float:
        """The largest error of estimated accuracies under simulated shifts, for this goal.

        As many nodes as were misjudged there, if they are those that count most.
        """
        nodes = self.posterior.source.estimate_error * len(self.posterior.probs)
        return nodes * float((slopes.amax(1) - slopes.amin(1)).max())

    def _chance(self, rows: Tensor) -> float:
        """Half the width of nine in ten sums of one entry per row, drawn by the posterior."""
        known = self.posterior.probs.double()
        means = (known * rows).sum(1)
        variance = (known * rows.square()).sum(1) - means.square()
        return NORMAL_90 * math.sqrt(max(float(variance.sum()), 0.0))


def _around(values: Tensor, chance: float) -> Interval:
    """From values as they are and perturbed."""
    return Interval(float(values[0]), float(values.min()) - chance, float(values.max()) + chance)


@dataclass(frozen=True, eq=False)
class _Scores:
    """Of a candidate.

    Attributes:
        drawn: the goal for each draw of the classes, [DRAWS].
        moved: by how much each perturbation changes its mean, [2 C].
        rows: its probabilities at the drawn nodes, [n, C].
        per_error: see `per_error`.
    """

    drawn: Tensor
    moved: Tensor
    rows: Probs
    per_error: float


class _DrawnRater(Rater):
    def __init__(self, goal: AveragePrecision, posterior: Posterior) -> None:
        self.goal = goal
        known = posterior.probs.double().cpu()
        # As many nodes as were misjudged under simulated shifts, if all are of this class.
        share = float(known[:, goal.positive].mean())
        self.error = posterior.source.estimate_error / max(share, 1e-12)
        chance = torch_stream(0, Purpose.DRAWN_CLASSES)
        self.nodes = torch.randperm(len(known), generator=chance)[:MOST_DRAWN]
        known = self.known = known[self.nodes]
        self.trust = posterior.trust
        points = torch.rand(DRAWS, len(known), generator=chance, dtype=torch.float64)
        self.truths = _drawn(known, points)
        self.perturbed = [_drawn(p, points[:PERTURBED_DRAWS]) for p in perturbed(known)]

    def rate(self, probs: Probs, labels: Tensor | None = None) -> _Scores:
        rows = probs[self.nodes.to(probs.device)].cpu()
        drawn = self._scores(self.truths, rows)
        usual = drawn[:PERTURBED_DRAWS].mean()
        moved = [self._scores(truths, rows).mean() - usual for truths in self.perturbed]
        likely = rows.argmax(1)
        perfect = self.goal.score(likely, rows)
        accuracy = float(self.known.gather(1, likely[:, None]).mean())
        lost = per_error(perfect, float(drawn.mean()), accuracy)
        return _Scores(drawn, torch.stack(moved), rows, lost)

    def value(self, rated: _Scores) -> Interval:
        found = self._interval(rated.drawn, rated.moved, self.error)
        off, bias = (each * rated.per_error for each in (self.trust.error, self.trust.bias))
        found = Interval(found.value - bias, found.low - off, found.high + UPWARD * off)
        return Interval(max(found.value, 0.0), max(0.0, found.low), min(1.0, found.high))

    def gain(self, rated: _Scores, over: _Scores) -> Interval:
        # A ranking may change where no label does.
        changed = float((rated.rows.argmax(1) != over.rows.argmax(1)).double().mean())
        moved = 0.5 * float((rated.rows - over.rows).abs().sum(1).mean())
        off = max(changed, moved) * self.trust.error * max(rated.per_error, over.per_error)
        return self._interval(rated.drawn - over.drawn, rated.moved - over.moved, off)

    def _scores(self, truths: Tensor, rows: Probs) -> Tensor:
        scores = [self.goal.score(truth.long(), rows) for truth in truths]
        return torch.tensor(scores, dtype=torch.float64)

    @staticmethod
    def _interval(drawn: Tensor, moved: Tensor, error: float) -> Interval:
        middle, around = float(drawn.mean()), NORMAL_90 * float(drawn.std()) + error
        low, high = min(0.0, float(moved.min())), max(0.0, float(moved.max()))
        return Interval(middle, middle + low - around, middle + high + around)


def _drawn(probs: Probs, points: Tensor) -> Tensor:
    """Classes of nodes with probabilities [n, C] at points of the unit interval [S, n]: [S, n]."""
    steps = probs.cumsum(1)[:, :-1]
    return torch.stack([(each[:, None] > steps).sum(1) for each in points]).to(torch.int32)
