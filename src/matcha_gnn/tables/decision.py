"""What is expected of each candidate, and which one is taken: numbers without rows."""

import math
from dataclasses import dataclass
from typing import ClassVar

from matcha_gnn import result
from matcha_gnn.evidence.goals import ACCURACY, Goal
from matcha_gnn.evidence.posterior import Interval
from matcha_gnn.questions.verdict import Verdict
from matcha_gnn.typing import Parameters

NO_ESTIMATE = Interval(math.nan, math.nan, math.nan)


@dataclass(frozen=True)
class Candidate:
    """An answer that was tried.

    Attributes:
        name: "source", or how it was made.
        accuracy: share of its labels that are expected to be true, with bounds.
        gain: by how much that is more than the source's, with bounds.
        changed: share of labels that differ from the source's: accuracy cannot differ by more.
    """

    name: str
    accuracy: Interval
    gain: Interval
    changed: float

    @property
    def goal(self) -> Interval:
        """The accuracy: by no other metric are candidates compared here."""
        return self.accuracy

    def figures(self) -> Parameters:
        """Its name and numbers as JSON values."""
        return {
            "name": self.name,
            "accuracy": self.accuracy._asdict(),
            "gain": self.gain._asdict(),
            "changed": self.changed,
        }


@dataclass(frozen=True)
class Decision:
    """Which candidate was taken, and why.

    Attributes:
        candidates: all that were tried, the source first.
        chosen: the name of the one that was taken.
        obstacle: why accuracy could not be estimated, or empty.
        broken: the obstacle is that the features cannot be what the source's are.
        verdict: what answers to questions say; None where nobody was asked.
    """

    candidates: tuple[Candidate, ...]
    chosen: str
    obstacle: str = ""
    broken: bool = False
    verdict: Verdict | None = None

    goal: ClassVar[Goal] = ACCURACY

    @classmethod
    def among(cls, candidates: tuple[Candidate, ...], obstacle: str, broken: bool) -> "Decision":
        """Take the candidate with the largest lower bound of its gain above zero, or the source."""
        better = [one for one in candidates if one.gain.low > 0]
        best = max(better, key=lambda one: one.gain.low, default=candidates[0])
        return cls(candidates, best.name, obstacle, broken)

    @property
    def adapted(self) -> bool:
        """Whether another answer than the source's was taken."""
        return self.chosen != self.candidates[0].name

    @property
    def taken(self) -> Candidate:
        """The candidate that was taken."""
        return next(one for one in self.candidates if one.name == self.chosen)

    def summary(self) -> str:
        """What was done and why, in a few sentences: those of the core."""
        candidates = tuple(
            result.Candidate(one.name, one.accuracy, one.goal, one.gain, one.changed)
            for one in self.candidates
        )
        threshold = None if self.obstacle else 0.0
        return result.Decision(
            self.chosen,
            candidates,
            None,
            self.obstacle,
            threshold,
            verdict=self.verdict,
            broken=self.broken,
        ).summary()
