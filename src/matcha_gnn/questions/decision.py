"""What answers decide: which candidate is taken, with which error rate, and what they estimate."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from matcha_gnn.evidence import Interval
from matcha_gnn.questions.estimates import (
    ERROR,
    combined,
    importance_weights,
    share_estimate,
    weighted_mean,
)
from matcha_gnn.questions.sampling import (
    MARGIN,
    IntArray,
    believed_gains,
    candidate_shares,
    draw_order,
    node_weights,
)
from matcha_gnn.questions.sequential import Bets, adjusted, lower_bound
from matcha_gnn.typing import FloatArray, Parameters

if TYPE_CHECKING:
    from matcha_gnn.result import Candidate

ERROR_RATE = 0.05
"""Probability of taking a candidate that is worse than the source by more than `MARGIN`."""
BELIEVED = 10
"""Answers that the evidence is worth where it helps to choose among permitted candidates."""


@dataclass(frozen=True, eq=False)
class Design:
    """What is fixed before any answer: the order of the questions, and how they will be used.

    Attributes:
        labels: of the candidates, the source's first, [M, N].
        prior: class probabilities by evidence, [N, C], or None. They may be wrong.
        seed: of the order.
    """

    labels: IntArray
    prior: FloatArray | None
    seed: int = 0

    @cached_property
    def shares(self) -> FloatArray:
        """How much of the questions and of the error rate each candidate gets, [M − 1]."""
        return candidate_shares(self.labels, self.prior)

    @cached_property
    def weights(self) -> FloatArray:
        """With which nodes are drawn, [N]; zero where all candidates agree."""
        return node_weights(self.labels, self.shares)

    @cached_property
    def beliefs(self) -> FloatArray | None:
        """Gains over the source that the evidence expects, [M − 1, N]."""
        return None if self.prior is None else believed_gains(self.labels, self.prior)

    def order(self, count: int) -> IntArray:
        """The first nodes to ask about, [T], T ≤ count."""
        return draw_order(self.weights, count, self.seed)


@dataclass(frozen=True)
class Verdict:
    """What answers say; intervals are in the order of the candidates, the source first.

    Attributes:
        taken: number of the candidate to take; 0 for the source.
        answered: answers.
        skipped: questions without an answer that come before an answered one.
        accuracies: of the candidates.
        gains: over the source.
        wealths: of the bets against "worse than the source by more than a point", for all
            candidates at once; permitted from 1 / `ERROR_RATE`.
        permitted: whether each may be taken.
        more: answers like those so far after which the best candidate would be permitted, or None.
    """

    taken: int
    answered: int
    skipped: int
    accuracies: tuple[Interval, ...]
    gains: tuple[Interval, ...]
    wealths: tuple[float, ...]
    permitted: tuple[bool, ...]
    more: int | None

    def figures(self) -> Parameters:
        """All of it as JSON values, with the error rate and the margin of the test."""
        intervals = {
            name: [each._asdict() for each in getattr(self, name)]
            for name in ("accuracies", "gains")
        }
        return vars(self) | intervals | {"error_rate": ERROR_RATE, "margin": MARGIN}

    def summary(self, candidates: "Sequence[Candidate]") -> str:
        """What was decided, with which error rate, and what is estimated."""
        skipped = ""
        if self.skipped:
            skipped = f" Skipped questions count as losses of the candidates: {self.skipped}."
        return (self._taken(candidates) if self.taken else self._kept(candidates)) + skipped

    def _taken(self, candidates: "Sequence[Candidate]") -> str:
        taken, accuracy = candidates[self.taken], self.accuracies[self.taken]
        return (
            f"Adapted ({taken.name}), decided by {_answers(self.answered)}: with an error rate of "
            f"at most {ERROR_RATE:.0%}, whatever the graph is like, it is not worse than the "
            f"source model by more than {100 * MARGIN:g} point. Estimated gain: "
            f"{_points(self.gains[self.taken])}. Estimated accuracy: {_percent(accuracy)}. "
            f"{taken.changed:.1%} of labels changed: accuracy cannot move by more."
        )

    def _kept(self, candidates: "Sequence[Candidate]") -> str:
        gains = [gain.value if math.isfinite(gain.value) else -math.inf for gain in self.gains[1:]]
        best = int(np.argmax(gains)) + 1
        kept = f"Kept the source model, decided by {_answers(self.answered)}:"
        about = f"{candidates[best].name}, estimated gain {_points(self.gains[best])}"
        accuracy = f"Estimated accuracy: {_percent(self.accuracies[0])}."
        if not self.gains[best].value > 0:
            return f"{kept} no candidate is estimated to be better (best: {about}). {accuracy}"
        more = f" about {_answers(self.more)} more like these would." if self.more else ""
        return (
            f"{kept} they do not show, with an error rate of at most {ERROR_RATE:.0%}, that the "
            f"best candidate is not worse by more than {100 * MARGIN:g} point ({about});"
            f"{more or ' more answers may.'} {accuracy}"
        )


def _answers(number: int) -> str:
    return f"{number} answer{'s' if number != 1 else ''}"


def _points(gain: Interval) -> str:
    low, value, high = (f"{100 * each:+z.1f}" for each in (gain.low, gain.value, gain.high))
    if not math.isfinite(gain.value):
        return f"between {low} and {high} points"
    return f"{value} points (90% interval {low} to {high})"


def _percent(accuracy: Interval) -> str:
    if not math.isfinite(accuracy.value):
        return f"between {accuracy.low:.0%} and {accuracy.high:.0%}"
    return f"{accuracy.value:.0%} (90% interval {accuracy.low:.0%} to {accuracy.high:.0%})"


def decide(design: Design, asked: IntArray, answers: Mapping[int, int]) -> Verdict:
    """Test every candidate against the source and take the best that is permitted.

    A candidate is permitted once its hypothesis, worse than the source by more than a point, has
    been rejected after any of the answers. Questions count in the order in which they were drawn,
    whatever the order of the answers; one that was skipped counts as a loss of every candidate that
    differs from the source there. That can only lower the wealth, so the error rate holds whichever
    questions are answered.

    Args:
        design: of the questions.
        asked: nodes in the order of the questions, [T].
        answers: true class by node, for some of them.
    """
    found = _Comparisons(design, asked, answers)
    tests, wealths = found.tests, found.wealths
    return Verdict(
        taken=found.best,
        answered=int((found.known >= 0).sum()),
        skipped=int((found.known < 0).sum()),
        accuracies=tuple(found.accuracy(number) for number in range(len(design.labels))),
        gains=(Interval(0.0, 0.0, 0.0), *(test.gain for test in tests)),
        wealths=(1.0, *wealths),
        permitted=(True, *(wealth >= 1 / ERROR_RATE for wealth in wealths)),
        more=None if found.best else found.more,
    )


def choose(design: Design, asked: IntArray, answers: Mapping[int, int]) -> int:
    """The number of the candidate that `decide` takes, without estimates of the others."""
    return _Comparisons(design, asked, answers).best


class _Comparisons:
    """All candidates beside the source, at the questions up to the last that was answered."""

    def __init__(self, design: Design, asked: IntArray, answers: Mapping[int, int]) -> None:
        known = np.array([answers.get(node, -1) for node in asked.tolist()], dtype=np.int64)
        last = int(np.flatnonzero(known >= 0).max(initial=-1)) + 1
        self.design, self.nodes, self.known = design, asked[:last], known[:last]
        self.right = (design.labels[:, self.nodes] == self.known).astype(float)
        gains = np.where(self.known >= 0, self.right[1:] - self.right[0], -1.0)
        self.tests = [
            _Comparison(design, k, self.nodes, self.known, each) for k, each in enumerate(gains)
        ]

    @cached_property
    def wealths(self) -> list[float]:
        """The largest that each candidate has had, adjusted for testing all of them."""
        shares = self.design.shares
        if not len(self.nodes) or not self.tests:
            return [1.0 if share > 0 else math.inf for share in shares]
        together = adjusted(np.stack([test.wealth for test in self.tests]), shares)
        found: list[float] = together.max(-1).tolist()
        return found

    @property
    def best(self) -> int:
        """The permitted candidate with the largest expected gain, or 0 for the source."""
        able = [
            number
            for number, (test, wealth) in enumerate(zip(self.tests, self.wealths, strict=True), 1)
            if wealth >= 1 / ERROR_RATE and test.estimate > 0
        ]
        return max(able, key=lambda number: self.tests[number - 1].expected, default=0)

    @property
    def more(self) -> int | None:
        """Answers until a candidate is permitted if its wealth goes on growing as it did."""
        found = []
        for test, wealth in zip(self.tests, self.wealths, strict=True):
            if test.estimate > 0 and 1 < wealth < 1 / ERROR_RATE:
                grown = math.log(wealth)
                missing = math.log(1 / ERROR_RATE) - grown
                found.append(math.ceil(len(self.nodes) * missing / grown))
        return min(found, default=None)

    def accuracy(self, number: int) -> Interval:
        """Of one candidate: the disputed nodes and the others are estimated apart."""
        disputed = self.design.weights > 0
        parts, shares = [], []
        for inside, weights in (
            (disputed, self.design.weights),
            (~disputed, np.ones(len(disputed))),
        ):
            bets = Bets(self.nodes, weights, inside)
            counted = bets.hit & (self.known >= 0)
            weights = importance_weights(bets.ratio, counted, bets.size)
            parts.append(share_estimate(self.right[number], weights, bets.size))
            shares.append(float(inside.mean()))
        return combined(parts, shares)


class _Comparison:
    """One candidate beside the source, at the nodes that were asked."""

    def __init__(
        self, design: Design, number: int, nodes: IntArray, known: IntArray, gains: FloatArray
    ) -> None:
        inside = design.labels[number + 1] != design.labels[0]
        beliefs = None if design.beliefs is None else design.beliefs[number]
        self.bets = Bets(nodes, design.weights, inside, beliefs)
        self.changed = float(inside.mean())
        self.size = len(inside)
        self.gains = gains
        self.believed = 0.0 if beliefs is None else float(beliefs.mean())
        counted = self.bets.hit & (known >= 0)
        self.answered = int(counted.sum())
        self.weights = importance_weights(self.bets.ratio, counted, self.bets.size)

    @property
    def wealth(self) -> FloatArray:
        """After each question, [T]."""
        return self.bets.wealth(self.gains, -MARGIN * self.size)

    @property
    def estimate(self) -> float:
        """The gain in accuracy over all nodes, unbiased; NaN without an answer that tells."""
        if not self.answered:
            return math.nan if self.bets.size else 0.0
        return self.changed * float(weighted_mean(self.gains, self.weights))

    @property
    def gain(self) -> Interval:
        """The estimate, with an interval that holds at any time, as the test does."""
        if not self.answered:
            return Interval(self.estimate, -self.changed, self.changed)
        low = self.changed * lower_bound(self.bets, self.gains, ERROR)
        against = np.where(self.weights != 0, -self.gains, -1.0)
        high = -self.changed * lower_bound(self.bets, against, ERROR)
        return Interval(min(max(self.estimate, low), high), low, high)

    @property
    def expected(self) -> float:
        """The gain by answers and evidence together, to choose among permitted candidates."""
        total = self.answered * self.estimate + BELIEVED * self.believed
        return total / (self.answered + BELIEVED)
