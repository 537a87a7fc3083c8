"""What answers decide: which candidate is taken, with which error rate, and what they estimate."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from matcha_gnn.questions.estimates import (
    ERROR,
    Interval,
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

    def sentence(self, candidates: "Sequence[Candidate]") -> str:
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
            f"{kept} they do not show, with an error rate of at most {ERROR_RATE:.0%}, that a "
            f"candidate is not worse by more than {100 * MARGIN:g} point (best: {about});"
            f"{more or ' more answers may.'} {accuracy}"
        )


def _answers(number: int) -> str:
    return f"{number} answer{'s' if number != 1 else ''}"


def _points(gain: Interval) -> str:
    low, value, high = (f"{100 * each:+z.1f}" for each in (gain.low, gain.value, gain.high))
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
    known = np.array([answers.get(node, -1) for node in asked.tolist()], dtype=np.int64)
    last = int(np.flatnonzero(known >= 0).max(initial=-1)) + 1
    nodes, known = asked[:last], known[:last]
    right = (design.labels[:, nodes] == known).astype(float)
    gains = np.where(known >= 0, right[1:] - right[0], -1.0)
    tests = [_Comparison(design, k, nodes, known, gains[k]) for k in range(len(gains))]
    wealths = _wealths(tests, design.shares, last)
    permitted = [wealth >= 1 / ERROR_RATE for wealth in wealths]
    estimates = [test.gain for test in tests]
    scores = [test.expected for test in tests]
    able = [k for k, test in enumerate(tests) if permitted[k] and test.gain.value > 0]
    best = max(able, key=scores.__getitem__, default=None)
    return Verdict(
        taken=0 if best is None else best + 1,
        answered=int((known >= 0).sum()),
        skipped=int((known < 0).sum()),
        accuracies=tuple(_accuracy(design, nodes, known, hits) for hits in right),
        gains=(Interval(0.0, 0.0, 0.0), *estimates),
        wealths=(1.0, *wealths),
        permitted=(True, *permitted),
        more=None if able else _more(tests, wealths, last),
    )


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

    @cached_property
    def gain(self) -> Interval:
        """In accuracy over all nodes; the interval holds at any time, as the test does."""
        if not self.answered:
            return Interval(math.nan if self.bets.size else 0.0, -self.changed, self.changed)
        value = float(weighted_mean(self.gains, self.weights))
        low = lower_bound(self.bets, self.gains, ERROR)
        against = np.where(self.weights != 0, -self.gains, -1.0)
        high = -lower_bound(self.bets, against, ERROR)
        value = min(max(value, low), high)
        return Interval(*(self.changed * each for each in (value, low, high)))

    @property
    def expected(self) -> float:
        """The gain by answers and evidence together, to choose among permitted candidates."""
        total = self.answered * self.gain.value + BELIEVED * self.believed
        return total / (self.answered + BELIEVED)


def _wealths(tests: list[_Comparison], shares: FloatArray, count: int) -> list[float]:
    """The largest that each candidate has had, adjusted for testing all of them."""
    if not count:
        return [1.0 if share > 0 else math.inf for share in shares]
    together = adjusted(np.stack([test.wealth for test in tests]), shares)
    found: list[float] = together.max(-1).tolist()
    return found


def _accuracy(design: Design, nodes: IntArray, known: IntArray, hits: FloatArray) -> Interval:
    """Of one candidate: the disputed nodes and the others are estimated apart."""
    disputed = design.weights > 0
    parts, shares = [], []
    for inside, weights in ((disputed, design.weights), (~disputed, np.ones(len(disputed)))):
        bets = Bets(nodes, weights, inside)
        counted = bets.hit & (known >= 0)
        weights = importance_weights(bets.ratio, counted, bets.size)
        parts.append(share_estimate(hits, weights, bets.size))
        shares.append(float(inside.mean()))
    return combined(parts, shares)


def _more(tests: list[_Comparison], wealths: list[float], count: int) -> int | None:
    """Answers until the first candidate is permitted if its wealth goes on growing as it did."""
    found = []
    for test, wealth in zip(tests, wealths, strict=True):
        grown = math.log(max(wealth, 1e-300)) if count else 0.0
        if grown > 0 and math.isfinite(grown) and test.gain.value > 0:
            found.append(math.ceil(count * (math.log(1 / ERROR_RATE) - grown) / grown))
    return max(1, min(found)) if found else None
