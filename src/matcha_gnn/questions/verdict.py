"""What answers say of the candidates, as numbers and as a sentence."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from matcha_gnn.evidence.posterior import Interval
from matcha_gnn.questions.sampling import ERROR_RATE, MARGIN
from matcha_gnn.typing import Parameters

if TYPE_CHECKING:
    from matcha_gnn.candidates import Candidate


@dataclass(frozen=True)
class Verdict:
    """What answers say; intervals are in the order of the candidates, the source first.

    Attributes:
        taken: number of the candidate to take; 0 for the source.
        answered: answers.
        skipped: questions without an answer that come before an answered one.
        accuracies: of the candidates, by answers and evidence.
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
            f"{kept} it is not shown, with an error rate of at most {ERROR_RATE:.0%}, that the "
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
    return f"{accuracy.value:.0%} (90% interval {accuracy.low:.0%} to {accuracy.high:.0%})"
