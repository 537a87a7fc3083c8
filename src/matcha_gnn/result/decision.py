"""Which candidates were tried, which was taken, and why."""

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from matcha_gnn.backbones import Backbone
from matcha_gnn.evidence import Interval, Posterior
from matcha_gnn.typing import Parameters, Probs

if TYPE_CHECKING:
    from matcha_gnn.questions.verdict import Verdict

UNKNOWN = "cannot be estimated"


@dataclass(frozen=True, repr=False)
class Candidate:
    """A model that was tried.

    Attributes:
        name: "source", or how it was made.
        accuracy: share of its labels that are expected to be true, with bounds.
        gain: by how much that is more than the source's, with bounds.
        changed: share of labels that differ from the source's: accuracy cannot differ by more.
        probs: class probabilities by the base method around it, [N, C]; None where the graph is
            stored or sharded.
        model: what `Adaptation.model` is when it is taken; None with `probs`.
    """

    name: str
    accuracy: Interval
    gain: Interval
    changed: float
    probs: Probs | None = field(default=None, compare=False)
    model: Backbone | None = field(default=None, compare=False)

    def __repr__(self) -> str:
        """One line."""
        changed = f"{self.changed:.1%} of labels changed"
        if not math.isfinite(self.accuracy.value + self.gain.value):
            return f"Candidate({self.name!r}, accuracy {UNKNOWN}, {changed})"
        gain = (f"{100 * each:+z.1f}" for each in (self.gain.value, self.gain.low, self.gain.high))
        middle, low, high = gain
        return (
            f"Candidate({self.name!r}, accuracy {self.accuracy.value:.1%}, gain {middle} points, "
            f"{low} to {high}, {changed})"
        )

    def figures(self) -> Parameters:
        """Its name and numbers as JSON values."""
        return {
            "name": self.name,
            "expected_accuracy": self.accuracy.value,
            "accuracy_low": self.accuracy.low,
            "accuracy_high": self.accuracy.high,
            "expected_gain": self.gain.value,
            "gain_lower_bound": self.gain.low,
            "gain_upper_bound": self.gain.high,
            "changed": self.changed,
        }

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
        threshold: what the lower bound of a gain had to reach; None without an estimate.
        moved_back: all nodes were moved back by the offset of their features.
        verdict: what answers to questions say; None where nobody was asked.
    """

    chosen: str
    candidates: tuple[Candidate, ...]
    posterior: Posterior | None
    obstacle: str = ""
    threshold: float | None = None
    moved_back: bool = False
    verdict: "Verdict | None" = None

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
    def believed(self) -> Posterior | None:
        """The evidence, unless it cannot tell."""
        return None if self.obstacle else self.posterior

    def summary(self) -> str:
        """What was done and why, in one line."""
        if self.verdict:
            return self.verdict.summary(self.candidates)
        if self.obstacle:
            return f"Kept the source model: {self.obstacle}.{self._help}"
        source = self.candidates[0]
        if self.adapted:
            chosen = next(c for c in self.candidates if c.name == self.chosen)
            return (
                f"Adapted ({self.chosen}). Estimated accuracy: "
                f"{estimate(source.expected_accuracy)} → {estimate(chosen.expected_accuracy)}"
                f"{_interval(chosen.accuracy)}. "
                f"{chosen.changed:.1%} of labels changed: accuracy cannot move by more."
                f"{self._without_source}"
            )
        best = max(self.candidates[1:], key=lambda c: c.gain_lower_bound, default=source)
        if not math.isfinite(source.expected_accuracy + best.expected_gain + best.gain_lower_bound):
            return f"Kept the source model: its accuracy {UNKNOWN}."
        threshold = 100 * (self.threshold or 0)
        return (
            f"Kept the source model: estimated accuracy {source.expected_accuracy:.1%}; best "
            f"candidate ({best.name}): expected gain {100 * best.expected_gain:+z.1f} points, "
            f"lower bound {_below(100 * best.gain_lower_bound, threshold)}, not above the "
            f"threshold of {threshold:g}.{self._without_source}"
        )

    @property
    def _help(self) -> str:
        """What would decide among candidates of which nothing can be estimated."""
        if not any(one.model for one in self.candidates[1:]):
            return ""
        return " The classes of a few nodes would decide: ask(20), or --ask 20, says of which."

    @property
    def _without_source(self) -> str:
        if self.posterior is None or not bool(self.posterior.source.stand_in):
            return ""
        return " There is no source summary: the network's own labels stood in for it."


def estimate(value: float) -> str:
    """An estimated share in percent, or that there is none.

    Example:
        >>> estimate(0.869), estimate(math.nan)
        ('86.9%', 'cannot be estimated')
    """
    return f"{value:.1%}" if math.isfinite(value) else UNKNOWN


def _interval(of: Interval) -> str:
    """The bounds of an estimate in brackets; nothing where there are none."""
    if not math.isfinite(of.low + of.high):
        return ""
    return f" (90% interval {of.low:.1%} to {of.high:.1%})"


def _below(points: float, threshold: float) -> str:
    """Points with as many decimals as show that they are below a threshold.

    Example:
        >>> _below(0.52, 2), _below(1.97, 1.98)
        ('+0.5', '+1.97')
    """
    short = f"{points:+z.1f}"
    return short if float(short) <= threshold else f"{points:+.3g}"
