"""What is expected of each candidate, and which one is taken: numbers without rows."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from matcha_gnn import sentences
from matcha_gnn.candidates import choose
from matcha_gnn.evidence.goals import ACCURACY, Goal
from matcha_gnn.evidence.posterior import Interval
from matcha_gnn.questions.verdict import Verdict
from matcha_gnn.typing import Parameters


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
        assumption: what the estimates assume, in a sentence.
    """

    candidates: tuple[Candidate, ...]
    chosen: str
    obstacle: str = ""
    broken: bool = False
    verdict: Verdict | None = None
    assumption: str = ""

    goal: ClassVar[Goal] = ACCURACY
    by_hand: ClassVar[str] = ""
    stood_in: ClassVar[bool] = False

    @classmethod
    def among(
        cls, candidates: tuple[Candidate, ...], obstacle: str, broken: bool, assumption: str
    ) -> "Decision":
        """Take the candidate with the largest lower bound of its gain above zero, or the source."""
        choosable: Any = candidates
        return cls(candidates, choose(choosable, ACCURACY).name, obstacle, broken, None, assumption)

    @property
    def adapted(self) -> bool:
        """Whether another answer than the source's was taken."""
        return self.chosen != self.candidates[0].name

    @property
    def taken(self) -> Candidate:
        """The candidate that was taken."""
        return next(one for one in self.candidates if one.name == self.chosen)

    @property
    def compared(self) -> Candidate | None:
        """What to set beside the source: what was taken, or else the best other."""
        if self.adapted:
            return self.taken
        bound = "value" if self.verdict else "low"
        others = [one for one in self.candidates[1:] if math.isfinite(getattr(one.gain, bound))]
        return max(others, key=lambda one: getattr(one.gain, bound), default=None)

    def summary(self) -> str:
        """What was done and why, in a few sentences: those of the core."""
        decided: Any = self
        return sentences.summary(decided)
