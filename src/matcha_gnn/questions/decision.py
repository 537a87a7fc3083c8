"""What answers decide: which candidate is taken, with which error rate, and what they estimate."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from matcha_gnn.evidence.posterior import Interval
from matcha_gnn.questions.estimates import (
    ERROR,
    JEFFREYS,
    beta_of,
    contradicted,
    importance_weights,
    updated_share,
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
    def strata(self) -> IntArray:
        """Nodes that are drawn equally often, by the number of their stratum, [N]."""
        largest = max(float(self.weights.max()), 1e-300)
        found: IntArray = np.unique((self.weights / largest).round(9), return_inverse=True)[1]
        return found

    def order(self, count: int) -> IntArray:
        """The first nodes to ask about, [T], T ≤ count."""
        return draw_order(self.weights, count, self.seed)


def decide(
    design: Design,
    asked: IntArray,
    answers: Mapping[int, int],
    wanted: Sequence[float] | None = None,
    believed: Interval | None = None,
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
        wanted: what is expected of each candidate in the order of the design, by which the best
            permitted one is taken; None for accuracy, which answers tell.
        believed: accuracy of the source by the evidence of `design.prior`, whose bounds say how far
            that is to be believed; None where it is not. It counts for accuracies alone.
    """
    found = _Comparisons(design, asked, answers, wanted, believed)
    tests, wealths = found.tests, found.wealths
    return Verdict(
        taken=found.best,
        answered=int((found.known >= 0).sum()),
        skipped=int((found.known < 0).sum()),
        accuracies=tuple(map(found.accuracy, design.labels)),
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

    def __init__(
        self,
        design: Design,
        asked: IntArray,
        answers: Mapping[int, int],
        wanted: Sequence[float] | None = None,
        believed: Interval | None = None,
    ) -> None:
        self.wanted, self.believed = wanted, believed
        known = np.array([answers.get(node, -1) for node in asked.tolist()], dtype=np.int64)
        last = int(np.flatnonzero(known >= 0).max(initial=-1)) + 1
        self.design, self.nodes, self.known = design, asked[:last], known[:last]
        self.tests = [
            _Comparison(design, labels, self.nodes, self.known) for labels in design.labels[1:]
        ]

    @cached_property
    def wealths(self) -> list[float]:
        """The largest that each candidate has had, adjusted for testing all of them."""
        shares = self.design.shares
        if not (len(self.nodes) and self.tests):
            return [1.0 if share > 0 else math.inf for share in shares]
        rows = np.stack([test.wealth for test in self.tests])
        largest: list[float] = adjusted(rows, shares).max(-1).tolist()
        return largest

    @property
    def best(self) -> int:
        """The permitted candidate with the largest expected gain, or 0 for the source."""
        able = [number for number, wealth in enumerate(self.wealths, 1) if wealth >= 1 / ERROR_RATE]
        if self.wanted is not None:
            return max([0, *able], key=np.nan_to_num(self.wanted, nan=-np.inf).__getitem__)
        able = [number for number in able if self.tests[number - 1].estimate > 0]
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

    def accuracy(self, labels: IntArray) -> Interval:
        """Of one candidate, by strata of nodes that are drawn equally often."""
        strata = self.design.strata
        sizes = np.bincount(strata)
        known = self.known >= 0
        place = strata[self.nodes[known]]
        right = labels[self.nodes[known]] == self.known[known]
        drawn = np.bincount(place, minlength=len(sizes)).astype(float)
        hits = np.bincount(place, right, minlength=len(sizes)).astype(float)
        likely = self._likely(labels, sizes)
        if likely is None or contradicted(hits, drawn, likely):
            counts = [(JEFFREYS, JEFFREYS)] * len(sizes)
        else:
            counts = [beta_of(each) for each in likely]
        parts = [updated_share(*each) for each in zip(hits, drawn, sizes, counts, strict=True)]
        # Evidence errs in the same direction everywhere, so that bounds add up.
        return Interval(*(np.array(parts).T @ sizes / len(labels)).tolist())

    def _likely(self, labels: IntArray, sizes: IntArray) -> list[Interval] | None:
        """Share of true labels in each stratum by evidence; None where it is not believed."""
        prior, believed = self.design.prior, self.believed
        if prior is None or believed is None or not math.isfinite(believed.high - believed.low):
            return None
        hits, own = (
            prior[np.arange(len(each)), each].astype(np.float64)
            for each in (labels, self.design.labels[0])
        )
        means = np.bincount(self.design.strata, hits) / sizes + believed.value - own.mean()
        below, above = believed.value - believed.low, believed.high - believed.value
        return [
            Interval(mean, mean - below, mean + above) for mean in np.clip(means, 0, 1).tolist()
        ]


def _importance(bets: Bets, known: IntArray) -> FloatArray:
    """Importance weights of the answers, [T]."""
    return importance_weights(bets.ratio, bets.hit & (known >= 0), bets.size)


class _Comparison:
    """One candidate beside the source, at the nodes that were asked."""

    def __init__(
        self,
        design: Design,
        labels: IntArray,
        nodes: IntArray,
        known: IntArray,
    ) -> None:
        both = np.stack([design.labels[0], labels])
        changed, disputed = both[1] != both[0], design.weights > 0
        expected = None if design.prior is None else believed_gains(both, design.prior)[0]
        self.size = labels.size
        self.bets = Bets(nodes, design.weights, changed & disputed, expected)
        self.unasked = int((changed & ~disputed).sum())
        self.known = known >= 0
        right = (both[:, nodes] == known).astype(float)
        self.gains = np.where(self.known, right[1] - right[0], -1.0)
        self.believed = 0.0 if expected is None else float(expected.mean())
        self.weights = _importance(self.bets, known)
        self.answered = int((self.weights != 0).sum())

    @property
    def wealth(self) -> FloatArray:
        """After each question, [T]."""
        return self.bets.wealth(self.gains, self.unasked - MARGIN * self.size)

    @property
    def estimate(self) -> float:
        """The gain in accuracy over all nodes that can be asked about; NaN if no answer tells."""
        if not self.answered:
            return math.nan if self.bets.size else 0.0
        return self.bets.size * float(weighted_mean(self.gains, self.weights)) / self.size

    @property
    def gain(self) -> Interval:
        """The estimate, with an interval that holds at any time, as the test does."""
        share, around = self.bets.size / self.size, self.unasked / self.size
        if not self.answered:
            return Interval(self.estimate, -share - around, share + around)
        against = np.where(self.known, -self.gains, -1.0)
        low = share * lower_bound(self.bets, self.gains, ERROR) - around
        high = around - share * lower_bound(self.bets, against, ERROR)
        # Either bound may be wrong, so that they may cross.
        low, high = min(low, high), max(low, high)
        return Interval(min(max(self.estimate, low), high), low, high)

    @property
    def expected(self) -> float:
        """The gain by answers and evidence together, to choose among permitted candidates."""
        known = self.estimate if self.answered else 0.0
        return (self.answered * known + BELIEVED * self.believed) / (self.answered + BELIEVED)
