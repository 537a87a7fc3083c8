"""What answers decide: which candidate is taken, with which error rate, and what they estimate."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

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
    ERROR_RATE,
    MARGIN,
    IntArray,
    believed_gains,
    candidate_shares,
    draw_order,
    node_weights,
)
from matcha_gnn.questions.sequential import Bets, adjusted, lower_bound
from matcha_gnn.questions.verdict import Verdict
from matcha_gnn.typing import FloatArray

FITTED_AT = (20, 50, 100)
"""A candidate is fitted to the answers of so many first questions, once all of them are there."""
LATER_SHARE = 0.05
"""Share of the error rate that is set aside for these candidates."""
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
        """How much of the questions each candidate gets, [M − 1]."""
        return candidate_shares(self.labels, self.prior)

    @cached_property
    def weights(self) -> FloatArray:
        """With which nodes are drawn, [N]; zero where all candidates agree."""
        return node_weights(self.labels, self.shares)

    @cached_property
    def error_shares(self) -> FloatArray:
        """The same of the error rate, of which later candidates get some, [M − 1 + later]."""
        aside = np.full(len(FITTED_AT), LATER_SHARE / len(FITTED_AT))
        return np.concatenate([(1 - LATER_SHARE) * self.shares, aside])

    def order(self, count: int) -> IntArray:
        """The first nodes to ask about, [T], T ≤ count."""
        return draw_order(self.weights, count, self.seed)


@dataclass(frozen=True, eq=False)
class Later:
    """A candidate that was made from answers.

    Attributes:
        probs: its class probabilities, [N, C].
        start: questions whose answers it was made from, the first of the order; one of
            `FITTED_AT`. Bets on it begin after them.
    """

    probs: FloatArray
    start: int

    @cached_property
    def labels(self) -> IntArray:
        """The most probable class of each node, [N]."""
        found: IntArray = self.probs.argmax(1)
        return found


def decide(
    design: Design, asked: IntArray, answers: Mapping[int, int], later: Sequence[Later] = ()
) -> Verdict:
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
        later: candidates that were made from answers, one for each start; intervals of the verdict
            are in the order of the design's candidates and then of these.
    """
    found = _Comparisons(design, asked, answers, later)
    tests, wealths = found.tests, found.wealths
    return Verdict(
        taken=found.best,
        answered=int((found.known >= 0).sum()),
        skipped=int((found.known < 0).sum()),
        accuracies=(found.accuracy(design.labels[0], 0), *map(found.accuracy_of, tests)),
        gains=(Interval(0.0, 0.0, 0.0), *(test.gain for test in tests)),
        wealths=(1.0, *wealths),
        permitted=(True, *(wealth >= 1 / ERROR_RATE for wealth in wealths)),
        more=None if found.best else found.more,
    )


def choose(
    design: Design, asked: IntArray, answers: Mapping[int, int], later: Sequence[Later] = ()
) -> int:
    """The number of the candidate that `decide` takes, without estimates of the others."""
    return _Comparisons(design, asked, answers, later).best


class _Comparisons:
    """All candidates beside the source, at the questions up to the last that was answered."""

    def __init__(
        self,
        design: Design,
        asked: IntArray,
        answers: Mapping[int, int],
        later: Sequence[Later],
    ) -> None:
        known = np.array([answers.get(node, -1) for node in asked.tolist()], dtype=np.int64)
        last = int(np.flatnonzero(known >= 0).max(initial=-1)) + 1
        self.design, self.nodes, self.known = design, asked[:last], known[:last]
        self.tests = [self._test(labels, design.prior) for labels in design.labels[1:]]
        self.early = len(self.tests)
        self.tests += [self._test(one.labels, one.probs, one.start) for one in later]

    def _test(self, labels: IntArray, beliefs: FloatArray | None, start: int = 0) -> "_Comparison":
        return _Comparison(self.design, labels, beliefs, self.nodes, self.known, start)

    @cached_property
    def wealths(self) -> list[float]:
        """The largest that each candidate has had, adjusted for testing all of them."""
        shares = self.design.error_shares
        if not len(self.nodes):
            return [1.0 if share > 0 else math.inf for share in shares[: len(self.tests)]]
        rows = np.zeros((len(shares), len(self.nodes)))
        places = [*range(self.early), *(self.early + FITTED_AT.index(t.start) for t in self.later)]
        for place, test in zip(places, self.tests, strict=True):
            rows[place] = test.wealth
        found: list[float] = adjusted(rows, shares, len(FITTED_AT)).max(-1)[places].tolist()
        return found

    @property
    def later(self) -> list["_Comparison"]:
        """Of candidates that were made from answers."""
        return self.tests[self.early :]

    @property
    def best(self) -> int:
        """The permitted candidate with the largest expected gain, or 0 for the source.

        One that was made from answers is compared with the best of the others by the answers after
        those.
        """
        able = [
            number
            for number, (test, wealth) in enumerate(zip(self.tests, self.wealths, strict=True), 1)
            if wealth >= 1 / ERROR_RATE and test.estimate > 0
        ]
        early = [number for number in able if number <= self.early]
        best = max(early, key=lambda number: self.tests[number - 1].expected, default=0)
        for number in able[len(early) :]:
            one = self.tests[number - 1]
            other = self.tests[best - 1].since(one.start).expected if best else 0.0
            best = number if one.expected > other else best
        return best

    @property
    def more(self) -> int | None:
        """Answers until a candidate is permitted if its wealth goes on growing as it did."""
        found = []
        for test, wealth in zip(self.tests, self.wealths, strict=True):
            if test.estimate > 0 and 1 < wealth < 1 / ERROR_RATE:
                grown = math.log(wealth)
                missing = math.log(1 / ERROR_RATE) - grown
                found.append(math.ceil((len(self.nodes) - test.start) * missing / grown))
        return min(found, default=None)

    def accuracy_of(self, test: "_Comparison") -> Interval:
        """Of the candidate of a comparison."""
        return self.accuracy(test.labels, test.start)

    def accuracy(self, labels: IntArray, start: int) -> Interval:
        """Of one candidate: the disputed nodes and the others are estimated apart."""
        disputed = self.design.weights > 0
        right = (labels[self.nodes] == self.known).astype(float)
        parts, shares = [], []
        for inside, weights in (
            (disputed, self.design.weights),
            (~disputed, np.ones(len(disputed))),
        ):
            bets = Bets(self.nodes, weights, inside, start=start)
            parts.append(share_estimate(right, _importance(bets, self.known), bets.size))
            shares.append(float(inside.mean()))
        return combined(parts, shares)


def _importance(bets: Bets, known: IntArray) -> FloatArray:
    """Importance weights of the answers from the start of the bets on, [T]."""
    drawn_before = int((bets.hit & ~bets.played).sum())
    return importance_weights(bets.ratio, bets.played & (known >= 0), bets.size - drawn_before)


class _Comparison:
    """One candidate beside the source, at the nodes that were asked.

    A candidate that was made from answers may change nodes on which the others agree, and of which
    few are asked. Each of them counts as a loss in the test.
    """

    def __init__(
        self,
        design: Design,
        labels: IntArray,
        beliefs: FloatArray | None,
        nodes: IntArray,
        known: IntArray,
        start: int,
    ) -> None:
        both = np.stack([design.labels[0], labels])
        changed, disputed = both[1] != both[0], design.weights > 0
        expected = None if beliefs is None else believed_gains(both, beliefs)[0]
        self.given = design, labels, beliefs, nodes, known
        self.labels, self.start, self.size = labels, start, labels.size
        self.bets = Bets(nodes, design.weights, changed & disputed, expected, start)
        self.unasked = int((changed & ~disputed).sum())
        self.known = known >= 0
        right = (both[:, nodes] == known).astype(float)
        self.gains = np.where(self.known, right[1] - right[0], -1.0)
        self.believed = 0.0
        if design.prior is not None:
            self.believed = float(believed_gains(both, design.prior).mean())
        self.weights = _importance(self.bets, known)
        self.answered = int((self.weights != 0).sum())

    def since(self, start: int) -> "_Comparison":
        """The same by the answers from a question on."""
        return _Comparison(*self.given, max(start, self.start))

    @property
    def wealth(self) -> FloatArray:
        """After each question, [T]."""
        return self.bets.wealth(self.gains, self.unasked - MARGIN * self.size)

    @property
    def estimate(self) -> float:
        """The gain in accuracy over all nodes that can be asked about; NaN if no answer tells."""
        before = self.bets.hit & ~self.bets.played & self.known
        left = self.bets.size - int(before.sum())
        if not self.answered:
            return math.nan if left else float(self.gains[before].sum()) / self.size
        mean = float(weighted_mean(self.gains, self.weights))
        return (float(self.gains[before].sum()) + left * mean) / self.size

    @property
    def gain(self) -> Interval:
        """The estimate, with an interval that holds at any time, as the test does."""
        share, around = self.bets.size / self.size, self.unasked / self.size
        if not self.answered:
            return Interval(self.estimate, -share - around, share + around)
        against = np.where(self.known, -self.gains, -1.0)
        low = share * lower_bound(self.bets, self.gains, ERROR) - around
        high = around - share * lower_bound(self.bets, against, ERROR)
        return Interval(min(max(self.estimate, low), high), low, high)

    @property
    def expected(self) -> float:
        """The gain by answers and evidence together, to choose among permitted candidates."""
        known = self.estimate if self.answered else 0.0
        return (self.answered * known + BELIEVED * self.believed) / (self.answered + BELIEVED)
