"""Which candidates were tried, which was taken, and why."""

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from torch import Tensor

from matcha_gnn.evidence import ACCURACY, Goal, Interval, Posterior
from matcha_gnn.functional import f1, recall
from matcha_gnn.gamma.models import Backbone
from matcha_gnn.typing import Parameters, Probs

if TYPE_CHECKING:
    from matcha_gnn.questions.verdict import Verdict

UNKNOWN = "cannot be estimated"


class ClassScores(NamedTuple):
    """Scores of each class, [C] each; NaN for a class that does not occur.

    Attributes:
        precision: share of true labels among nodes that are given the class.
        recall: share of its nodes that are given the class.
        f1: harmonic mean of both.
    """

    precision: Tensor
    recall: Tensor
    f1: Tensor

    @classmethod
    def of(cls, confusion: Tensor) -> "ClassScores":
        """From nodes of class b among those that are given class a, expected or true, [C, C]."""
        hits, given, true = confusion.diagonal(), confusion.sum(1), confusion.sum(0)
        return cls(recall(hits, given), recall(hits, true), f1(hits, true, given))


@dataclass(frozen=True, repr=False)
class Candidate:
    """A model that was tried.

    Attributes:
        name: "source", or how it was made.
        accuracy: share of its labels that are expected to be true, with bounds.
        goal: what is expected of it in the metric that was chosen, with bounds; the accuracy
            where none was.
        gain: by how much the goal is more than the source's, with bounds.
        changed: share of labels that differ from the source's: accuracy cannot differ by more.
        probs: class probabilities by the base method around it, [N, C]; None where the graph is
            stored or sharded.
        model: what `Adaptation.model` is when it is taken; None with `probs`.
        confusion: expected nodes of class b among those that it gives class a, [C, C]; None where
            nothing can be estimated.
    """

    name: str
    accuracy: Interval
    goal: Interval
    gain: Interval
    changed: float
    probs: Probs | None = field(default=None, compare=False)
    model: Backbone | None = field(default=None, compare=False)
    confusion: Tensor | None = field(default=None, compare=False)

    def __repr__(self) -> str:
        """One line."""
        changed = f"{self.changed:.1%} of labels changed"
        if not math.isfinite(self.accuracy.value + self.gain.value):
            return f"Candidate({self.name!r}, accuracy {UNKNOWN}, {changed})"
        goal = "" if self.goal == self.accuracy else f"goal {self.goal.value:.3g}, "
        middle, low, high = (f"{each:+.3g}" for each in self.gain)
        return (
            f"Candidate({self.name!r}, accuracy {self.accuracy.value:.1%}, {goal}gain {middle} "
            f"({low} to {high}), {changed})"
        )

    def figures(self) -> Parameters:
        """Its name and numbers as JSON values."""
        return {
            "name": self.name,
            "expected_accuracy": self.accuracy.value,
            "accuracy_low": self.accuracy.low,
            "accuracy_high": self.accuracy.high,
            "expected_goal": self.goal.value,
            "goal_low": self.goal.low,
            "goal_high": self.goal.high,
            "expected_gain": self.gain.value,
            "gain_lower_bound": self.gain.low,
            "gain_upper_bound": self.gain.high,
            "changed": self.changed,
        }

    def class_estimates(self) -> ClassScores | None:
        """Expected precision and recall of each class; None where nothing can be estimated."""
        return None if self.confusion is None else ClassScores.of(self.confusion)

    @property
    def expected_accuracy(self) -> float:
        """The middle of `accuracy`."""
        return self.accuracy.value

    @property
    def expected_gain(self) -> float:
        """The middle of `gain`."""
        return self.gain.value

    @property
    def gain_lower_bound(self) -> float:
        """The lower bound of `gain`."""
        return self.gain.low


@dataclass(frozen=True, eq=False, repr=False)
class Decision:
    """Which candidate was taken, and why.

    Attributes:
        chosen: its name.
        candidates: all that were tried, the source first; with an obstacle nothing is estimated of
            them, and answers to questions can still decide among them.
        posterior: the evidence; None where there is none.
        obstacle: why accuracy could not be estimated, or empty.
        threshold: what the lower bound of a gain had to exceed; None without an estimate.
        moved_back: all nodes were moved back by the offset of their features.
        verdict: what answers to questions say; None where nobody was asked.
        goal: the metric that candidates were compared by.
        by_hand: what was taken before, where a person took the candidate (`Adaptation.take`).
        broken: the obstacle is that the features cannot be what the source's are.
    """

    chosen: str
    candidates: tuple[Candidate, ...]
    posterior: Posterior | None
    obstacle: str = ""
    threshold: float | None = None
    moved_back: bool = False
    verdict: "Verdict | None" = None
    goal: Goal = ACCURACY
    by_hand: str = ""
    broken: bool = False

    def __repr__(self) -> str:
        """One line instead of every tensor."""
        names = [candidate.name for candidate in self.candidates]
        why = f", {self.obstacle}" if self.obstacle else f" among {names}"
        return f"Decision({self.chosen!r}{why})"

    @property
    def adapted(self) -> bool:
        """Whether another model than the source's was taken."""
        return self.chosen != "source"

    @property
    def taken(self) -> Candidate | None:
        """The candidate that was taken; None where none could be tried."""
        return next((one for one in self.candidates if one.name == self.chosen), None)

    @property
    def compared(self) -> Candidate | None:
        """What to set beside the source: the candidate that was taken, or else the best other.

        The best is that with the largest lower bound of its gain, or by answers the largest gain:
        few answers leave bounds that say how many labels change. None where nothing else was
        tried, or nothing could be estimated.
        """
        if self.adapted:
            return self.taken
        figure = "value" if self.verdict else "low"
        known = [one for one in self.candidates[1:] if math.isfinite(getattr(one.gain, figure))]
        return max(known, key=lambda one: getattr(one.gain, figure), default=None)

    @property
    def assured(self) -> bool:
        """Whether the lower bound of the gain of what was taken is above the threshold."""
        if self.verdict:
            return self.verdict.permitted[self.verdict.taken]
        return bool(self.taken and self.taken.gain.low > (self.threshold or 0))

    @property
    def stood_in(self) -> bool:
        """Whether the network's own labels stood in for a source summary."""
        return self.posterior is not None and bool(self.posterior.source.stand_in)

    @property
    def believed(self) -> Posterior | None:
        """The evidence, unless it cannot tell."""
        return None if self.obstacle else self.posterior

    def summary(self) -> str:
        """What was done and why, in a few sentences."""
        if self.verdict:
            return self.verdict.summary(self.candidates) + self._untested
        if self.by_hand:
            return self._by_hand()
        if self.obstacle:
            stop = "" if self.obstacle.endswith("?") else "."
            return f"Kept the source model: {self.obstacle}{stop}{self._help}"
        return (self._adapted() if self.adapted else self._kept()) + self._assumption

    @property
    def _assumption(self) -> str:
        """What the estimate assumes."""
        if self.posterior is None or self.stood_in:
            return ""
        return f" {self.posterior.trust.assumption}"

    @property
    def _untested(self) -> str:
        """What answers do not tell: a goal other than accuracy."""
        source, chosen = self.candidates[0], self.taken
        if self.goal == ACCURACY or chosen is None or not math.isfinite(source.goal.value):
            return ""
        title, text = self.goal.title, self.goal.text
        after = f" → {self._spread(chosen.goal)}" if self.adapted else ""
        said = (
            f" Answers test accuracy, not {title}, which is estimated without them: "
            f"{text(source.goal.value)}{after}."
        )
        known = [one for one in self.candidates if math.isfinite(one.goal.value)]
        best = max(known, key=lambda one: one.goal.value)
        if best.goal.value > chosen.goal.value:
            said += (
                f" {best.name} is expected to have the highest ({text(best.goal.value)}), but it "
                f"is not shown to keep accuracy; result.take({best.name!r}) takes it."
            )
        return said

    def _adapted(self) -> str:
        chosen = self.taken
        assert chosen is not None
        return (
            f"Adapted ({self.chosen}). {self._change(chosen)} "
            f"{chosen.changed:.1%} of labels changed: accuracy cannot move by more."
            f"{self._without_source}"
        )

    def _kept(self) -> str:
        source, best = self.candidates[0], self.compared or self.candidates[0]
        known = 0.0 if self.stood_in else source.goal.value
        if not math.isfinite(known + best.gain.value + best.gain.low):
            return f"Kept the source model: its {self.goal.title} {UNKNOWN}."
        kept = f"Kept the source model: estimated {self.goal.title} {self._spread(source.goal)}."
        kept = "Kept the source model." if self.stood_in else kept
        if best is source:
            return f"{kept} No other candidate could be tried.{self._without_source}"
        return f"{kept} Best candidate ({best.name}): {self._short_of(best)}.{self._without_source}"

    def _by_hand(self) -> str:
        chosen, source = self.taken, self.candidates[0]
        assert chosen is not None
        instead = f"Taken by hand: {self.chosen}, in place of {self.by_hand}."
        if not math.isfinite(source.goal.value + chosen.goal.value):
            why = f" ({self.obstacle})" if self.obstacle else ""
            return f"{instead} Its {self.goal.title} {UNKNOWN}{why}."
        if chosen is source:
            return f"{instead} Estimated {self.goal.title}: {self._spread(source.goal)}."
        how = "above" if self.assured else self._missed(chosen.gain.low)
        return (
            f"{instead} {self._change(chosen)} Gain: {self._gain(chosen)}; {how} the threshold of "
            f"{self._threshold}. {chosen.changed:.1%} of labels changed."
        )

    def _change(self, chosen: Candidate) -> str:
        """Estimates before and after, of accuracy too where that is not the goal."""
        source = self.candidates[0]
        title, text = self.goal.title, self.goal.text
        if self.stood_in:
            return f"Gain: {self._gain(chosen)}."
        before = text(source.goal.value) if math.isfinite(source.goal.value) else UNKNOWN
        said = f"Estimated {title}: {before} → {self._spread(chosen.goal)}."
        if self.goal == ACCURACY:
            return said
        accuracies = (estimate(one.expected_accuracy) for one in (source, chosen))
        return f"{said} Estimated accuracy: {' → '.join(accuracies)}."

    def _short_of(self, best: Candidate) -> str:
        """Why a candidate was not taken, in figures."""
        missed = self._missed(best.gain.low)
        return f"{self._gain(best)}; {missed} the threshold of {self._threshold}"

    def _gain(self, one: Candidate) -> str:
        show, low, threshold = self.goal.difference, one.gain.low, self.threshold or 0.0
        least = show(low)
        if self.goal.is_share and low < threshold:
            # As many digits as show that the bound is below the threshold.
            shown = (show(low, digits=digits) for digits in range(1, 17))
            least = next((one for one in shown if float(one) < 100 * threshold), least)
        return f"expected {show(one.gain.value)}{self.goal.unit}, at least {least}"

    def _missed(self, low: float) -> str:
        return "below" if low < (self.threshold or 0) else "not above"

    @property
    def _threshold(self) -> str:
        value = self.threshold or 0.0
        return f"{100 * value:.3g}" if self.goal.is_share else f"{value:.4g}"

    def _spread(self, of: Interval) -> str:
        """An estimate with its bounds in brackets."""
        text = self.goal.text
        if not math.isfinite(of.value):
            return UNKNOWN
        if not math.isfinite(of.low + of.high):
            return text(of.value)
        return f"{text(of.value)} (90% interval {text(of.low)} to {text(of.high)})"

    @property
    def _help(self) -> str:
        """What would decide among candidates of which nothing can be estimated."""
        if self.broken or not any(one.model for one in self.candidates[1:]):
            return ""
        return " The classes of a few nodes would decide: ask(20), or --ask 20, says of which."

    @property
    def _without_source(self) -> str:
        if not self.stood_in:
            return ""
        return " There is no source summary: the network's own labels stood in for it."


def estimate(value: float) -> str:
    """An estimated share in percent, or that there is none.

    Example:
        >>> estimate(0.869), estimate(math.nan)
        ('86.9%', 'cannot be estimated')
    """
    return f"{value:.1%}" if math.isfinite(value) else UNKNOWN
