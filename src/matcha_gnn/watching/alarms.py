"""Alarms of a stream: when they ring, what they say, and how often they ring by chance."""

import enum
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import scipy.stats

from matcha_gnn.evidence.summary import SourceSummary
from matcha_gnn.typing import Parameters

if TYPE_CHECKING:
    from matcha_gnn.watching.steps import Step

FALL = 0.05
"""Accuracy that must be lost against the lower bound on the source before a shift counts."""
MENDED = 0.5
"""Share of that loss that adaptation must win back to count as mended."""
SHARES_MOVED = 0.1
"""Distance between class shares from which they count as moved, beyond the error of those of the
source: every tenth node."""
WIDE = 0.25
"""Width of the interval of an accuracy from which answers are needed."""

_ASK = (
    "Ask for the labels that decide most: step.result.ask(20), or matcha adapt MODEL GRAPH -o DIR "
    "--ask 20."
)


class AlarmKind(enum.StrEnum):
    """What can ring."""

    LEVEL = "level"
    NOT_MENDED = "not mended"
    CLASS_SHARES = "class shares"
    ANSWERS = "answers"
    FEATURES = "features"

    @property
    def meaning(self) -> str:
        """When it rings, for a reader."""
        return {
            AlarmKind.FEATURES: (
                "features are of another scale, offset or order than the source's, or do not go "
                "with edges"
            ),
            AlarmKind.LEVEL: "expected accuracy is below the level",
            AlarmKind.NOT_MENDED: (
                f"expected accuracy of the source model is more than {100 * FALL:.0f} points below "
                "the lower bound of its accuracy on the source, and adaptation wins back less than "
                "half of that"
            ),
            AlarmKind.CLASS_SHARES: (
                f"class shares are {100 * SHARES_MOVED:.0f} points further from the source's than "
                "chance explains"
            ),
            AlarmKind.ANSWERS: (
                "accuracy cannot be estimated, or its 90% interval is more than "
                f"{100 * WIDE:.0f} points wide"
            ),
        }[self]


class Chance(NamedTuple):
    """How often an alarm rang on graphs that were resampled from the source.

    Attributes:
        rang: on so many.
        graphs: of so many; 0 where no source graph was given.
    """

    rang: int
    graphs: int

    def __str__(self) -> str:
        """One sentence."""
        if not self.graphs:
            return "How often it rings by chance is not known: no source graph was given."
        return (
            f"By chance: it rang on {self.rang} of {self.graphs} graphs resampled from the source."
        )


@dataclass(frozen=True)
class Alarm:
    """An alarm that rings.

    Attributes:
        kind: which one.
        message: what was found and what to do.
        chance: how often it rings without a shift.
    """

    kind: AlarmKind
    message: str
    chance: Chance

    def __str__(self) -> str:
        """The message, and how often it rings by chance."""
        return f"{self.message} {self.chance}"

    def figures(self) -> Parameters:
        """As JSON values."""
        rang, graphs = self.chance
        return {"kind": str(self.kind), "message": self.message, "rang": rang, "graphs": graphs}

    @classmethod
    def from_figures(cls, figures: Parameters) -> "Alarm":
        """The inverse of `figures`."""
        rang, graphs = (int(str(figures[name])) for name in ("rang", "graphs"))
        return cls(AlarmKind(str(figures["kind"])), str(figures["message"]), Chance(rang, graphs))


class Reference(NamedTuple):
    """What the figures of a graph are held against.

    Attributes:
        level: the lowest accuracy that is good enough; None for no such level.
        accuracy: of the source model on its source; NaN where it is not known.
        basis: the nodes that this was measured on.
        held_out: how many they were; 0 for training nodes.
        shares_error: expected distance of class shares that were measured on so many nodes from
            the true ones.
        homophily: of the source.
        degree: its average degree.
    """

    level: float | None
    accuracy: float = math.nan
    basis: str = ""
    held_out: int = 0
    shares_error: float = 0.0
    homophily: float = math.nan
    degree: float = math.nan

    @classmethod
    def of(cls, level: float | None, summary: SourceSummary | None) -> "Reference":
        """From the summary of a source."""
        if summary is None:
            return cls(level)
        held, prior = int(summary.held_out), summary.class_prior.double()
        spread = (2 * prior * (1 - prior) / (math.pi * max(1, held))).sqrt().sum() / 2
        return cls(
            level,
            float(summary.accuracy),
            summary.basis,
            held,
            float(spread) if held else 0.0,
            summary.edge_homophily,
            float(summary.mean_degree),
        )

    @property
    def floor(self) -> float:
        """Lower bound of the accuracy on the source, 90% interval of Clopper and Pearson.

        Example:
            >>> round(Reference(None, 1.0, held_out=39).floor, 3)
            0.926
        """
        right = round(self.accuracy * self.held_out) if self.held_out else 0
        if not right:
            return self.accuracy
        return float(scipy.stats.beta.ppf(0.05, right, self.held_out - right + 1))


def alarms_of(
    step: "Step", reference: Reference, chances: Mapping[AlarmKind, Chance]
) -> tuple[Alarm, ...]:
    """What rings on a graph.

    Args:
        step: figures of the graph.
        reference: what they are held against.
        chances: how often each alarm rings without a shift.
    """
    said = {kind: message(step, reference) for kind, message in RULES.items()}
    return tuple(Alarm(kind, text, chances[kind]) for kind, text in said.items() if text)


def chances_of(reference: Reference, resampled: Sequence["Step"]) -> dict[AlarmKind, Chance]:
    """How often each alarm rings on graphs resampled from the source.

    Args:
        reference: what figures are held against.
        resampled: their figures.
    """
    return {
        kind: Chance(sum(bool(message(each, reference)) for each in resampled), len(resampled))
        for kind, message in RULES.items()
    }


def _features(step: "Step", _: Reference) -> str:
    if not step.broken:
        return ""
    obstacle = f"{step.obstacle[0].upper()}{step.obstacle[1:]}"
    return f"{obstacle} Look at how these features were made before predictions are used."


def _level(step: "Step", reference: Reference) -> str:
    if reference.level is None or not step.accuracy < reference.level:
        return ""
    todo = (
        "Label nodes of this graph and train anew."
        if step.high < reference.level
        else f"The interval reaches above the level. {_ASK}"
    )
    return (
        f"Expected accuracy is {_estimate(step)}, below the level of {reference.level:.1%}. {todo}"
    )


def _not_mended(step: "Step", reference: Reference) -> str:
    fall = reference.floor - step.source_accuracy
    back = step.accuracy - step.source_accuracy
    if not (fall > FALL and back < MENDED * fall):
        return ""
    tried = (
        f"adaptation wins back {100 * back:.1f} of {100 * fall:.1f} points"
        if step.adapted
        else "nothing that was tried is expected to be better"
    )
    return (
        f"Expected accuracy of the source model fell from {reference.accuracy:.1%} "
        f"(measured on {reference.basis}: at least {reference.floor:.1%}) to "
        f"{step.source_accuracy:.1%}, and {tried}. Label nodes "
        "of this graph and train anew."
    )


def _class_shares(step: "Step", reference: Reference) -> str:
    # Where accuracy cannot be told, class shares cannot either.
    if step.obstacle or not step.shares_moved >= SHARES_MOVED + reference.shares_error:
        return ""
    return (
        f"Class shares are {100 * step.shares_moved:.0f} points from the source's: "
        f"{step.moved_most}. Look whether that is true; if so, thresholds and quotas that rest on "
        "the old shares need an update."
    )


def _answers(step: "Step", reference: Reference) -> str:
    if step.broken:
        return ""
    if step.obstacle:
        return (
            f"How right the model is cannot be told: {step.obstacle}. {_ASK} The true classes of "
            "100 nodes drawn at random measure accuracy to about ten points."
        )
    if not step.high - step.low > WIDE:
        return ""
    return (
        f"The 90% interval of the accuracy is {100 * (step.high - step.low):.0f} points wide: "
        f"{_estimate(step)}. {_ASK}"
    )


def _estimate(step: "Step") -> str:
    bounds = "" if math.isnan(step.low) else f" (90% interval {step.low:.1%} to {step.high:.1%})"
    return f"{step.accuracy:.1%}{bounds}"


RULES: dict[AlarmKind, Callable[["Step", Reference], str]] = {
    AlarmKind.FEATURES: _features,
    AlarmKind.LEVEL: _level,
    AlarmKind.NOT_MENDED: _not_mended,
    AlarmKind.CLASS_SHARES: _class_shares,
    AlarmKind.ANSWERS: _answers,
}
"""From the figures of a graph to what the alarm says; empty where it does not ring."""
