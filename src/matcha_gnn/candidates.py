"""What was tried, what is expected of it, and which is taken."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from torch import Tensor

from matcha_gnn.answering import Proposal
from matcha_gnn.evidence.goals import ACCURACY, Goal, expected_confusion
from matcha_gnn.evidence.posterior import Interval, Posterior
from matcha_gnn.evidence.rating import rater_of
from matcha_gnn.functional import f1, recall
from matcha_gnn.network.network import Network
from matcha_gnn.typing import Parameters, Probs

SOURCE = "source"
DESCRIPTIONS = {
    SOURCE: "the network as it is",
    "pool": "features, edges and network together",
    "belief": "features and edges, without the network",
    "probe": "the features of a node alone",
}
"""What each candidate answers by, in half a line."""
UNKNOWN = "cannot be estimated"
NO_ESTIMATE = Interval(math.nan, math.nan, math.nan)


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
    """A classifier that was tried.

    Attributes:
        name: "source", or how it was made.
        accuracy: share of its labels that are expected to be true, with bounds.
        goal: what is expected of it in the metric that was chosen, with bounds; the accuracy
            where none was.
        gain: by how much the goal is more than the source's, with bounds.
        changed: share of labels that differ from the source's: accuracy cannot differ by more.
        probs: its class probabilities, [N, C].
        model: what `Result.model` is when it is taken.
        confusion: expected nodes of class b among those that it gives class a, [C, C]; None where
            nothing can be estimated.
    """

    name: str
    accuracy: Interval
    goal: Interval
    gain: Interval
    changed: float
    probs: Probs = field(compare=False)
    model: Network = field(compare=False)
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

    def to_dict(self) -> Parameters:
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


class Rating:
    """Rates proposals beside the network's own answer.

    Args:
        goal: what is to be high.
        posterior: of the graph; None where it cannot tell.
        source: the network's own answer.
    """

    def __init__(self, goal: Goal, posterior: Posterior | None, source: Proposal) -> None:
        self.goal, self.posterior = goal, posterior
        self.labels = source.probs.argmax(1)
        self.rater = None if posterior is None else rater_of(goal, posterior)
        self.before: Any = self.rater and self.rater.rate(source.probs, self.labels)

    def __call__(self, proposal: Proposal) -> Candidate:
        """A candidate with its estimates, where something can be estimated."""
        probs, labels = proposal.probs, proposal.probs.argmax(1)
        changed = float(labels.ne(self.labels).sum()) / len(labels)
        unknown = NO_ESTIMATE, NO_ESTIMATE, NO_ESTIMATE
        if self.rater is None or self.posterior is None:
            return Candidate(proposal.name, *unknown, changed, probs, proposal.network)
        rated = self.before if proposal.name == SOURCE else self.rater.rate(probs, labels)
        gain, value = self.rater.gain(rated, self.before), self.rater.value(rated)
        if bool(self.posterior.source.stand_in):
            # It shows which labels fit features and edges better, not how many are right.
            estimates = NO_ESTIMATE, NO_ESTIMATE, gain
            return Candidate(proposal.name, *estimates, changed, probs, proposal.network)
        accuracy = value if self.goal == ACCURACY else self.posterior.accuracy(labels)
        confusion = expected_confusion(labels, self.posterior.probs).cpu()
        return Candidate(
            proposal.name, accuracy, value, gain, changed, probs, proposal.network, confusion
        )


def choose(candidates: Sequence[Candidate], goal: Goal) -> Candidate:
    """The best of those whose gain has a lower bound above zero; the source where there is none.

    For accuracy the one with the largest bound: the posterior's own labels have the largest
    expectation by construction. For other goals they have not, and the largest expectation counts.
    """
    return max(
        (one for one in candidates if one.gain.low > 0),
        key=lambda one: one.gain.low if goal == ACCURACY else one.gain.value,
        default=candidates[0],
    )
