"""What is known of one graph of a stream: figures that fit into a line of a file."""

import math
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from typing import Any

from matcha_gnn.errors import InvalidArgumentError
from matcha_gnn.result import Adaptation
from matcha_gnn.typing import Parameters
from matcha_gnn.watching.alarms import Alarm

UNSAVED = ("result", "alarms")
"""Fields that are not figures."""


@dataclass(frozen=True)
class Step:
    """One graph of a stream. Accuracies are shares; NaN where they cannot be estimated.

    Attributes:
        number: its place in the stream, from 1.
        time: of the graph, in ISO format with time zone.
        name: of the graph, such as its file.
        fingerprint: a hash of its content.
        repeats: number of the latest earlier step with the same content; 0 for none.
        nodes: N.
        edges: E.
        chosen: the candidate that was taken: "source", "last" for the model that was adapted to an
            earlier graph, or how it was made.
        accuracy: expected, of the model that was taken.
        low: its lower bound, which holds nine times in ten.
        high: its upper bound.
        source_accuracy: expected, of the source model.
        changed: share of labels that differ from the source model's.
        degree: average incoming degree.
        homophily: estimated share of edges inside a class.
        shares_moved: distance between the class shares of source and graph: the share of nodes
            that would have to change class.
        moved_most: the class whose share moved most, as text.
        features: how node-only features differ from the source's.
        drift: length of their offset, in standard deviations within classes.
        confidence: mean largest probability of the source model.
        reason: what was decided and why.
        obstacle: why accuracy could not be estimated, or empty.
        broken: the obstacle is that the features cannot be what the source's are.
        problem: why the graph could not be used, or empty; then there are no figures.
        seconds: what it took.
        measured: accuracy of the model that was taken by labels, where the caller has some.
        report: where the report of this graph lies, or empty.
        version: of the file that the graph came from: its size and time of change.
        alarms: those that ring.
        result: predictions and model; None in steps that are kept or read from a file.
    """

    number: int
    time: str
    name: str = ""
    fingerprint: str = ""
    repeats: int = 0
    nodes: int = 0
    edges: int = 0
    chosen: str = ""
    accuracy: float = math.nan
    low: float = math.nan
    high: float = math.nan
    source_accuracy: float = math.nan
    changed: float = math.nan
    degree: float = math.nan
    homophily: float = math.nan
    shares_moved: float = math.nan
    moved_most: str = ""
    features: str = ""
    drift: float = math.nan
    confidence: float = math.nan
    reason: str = ""
    obstacle: str = ""
    broken: bool = False
    problem: str = ""
    seconds: float = math.nan
    measured: float = math.nan
    report: str = ""
    version: str = ""
    alarms: tuple[Alarm, ...] = ()
    result: Adaptation | None = field(default=None, repr=False, compare=False)

    @property
    def adapted(self) -> bool:
        """Whether another model than the source's was taken."""
        return self.chosen not in ("", "source")

    def kept(self) -> "Step":
        """Without predictions and model: a few hundred bytes."""
        return replace(self, result=None)

    def figures(self) -> Parameters:
        """All of it but the result, as JSON values; what does not exist is null."""
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in UNSAVED}
        return own | {"alarms": [alarm.figures() for alarm in self.alarms]}

    def row(self) -> dict[str, str]:
        """One line of a table: all figures, and the kinds of alarms that ring."""
        own = self.figures() | {"alarms": "; ".join(alarm.kind for alarm in self.alarms)}
        return {name: _cell(value) for name, value in own.items()}

    @classmethod
    def from_figures(cls, figures: Parameters) -> "Step":
        """The inverse of `figures`; fields of other versions are ignored.

        Raises:
            KeyError, TypeError, ValueError: no figures of a step.
        """
        known: dict[str, Any] = {f.name: f.type for f in fields(cls) if f.name not in UNSAVED}
        given = {
            name: _typed(known[name], value) for name, value in figures.items() if name in known
        }
        rung: Any = figures["alarms"]
        return cls(**given, alarms=tuple(map(Alarm.from_figures, rung)))


def _typed(kind: Any, value: object) -> Any:
    """A figure as its field has it; null was NaN."""
    if kind is float:
        return math.nan if value is None else float(value)  # type: ignore[arg-type]
    if not isinstance(value, kind):
        raise TypeError(f"{value!r} is no {kind.__name__}")
    return value


def _cell(value: object) -> str:
    """On one line; empty for a number that does not exist."""
    if isinstance(value, float):
        return f"{value:.6g}" if math.isfinite(value) else ""
    return one_line(str(value))


def one_line(text: str) -> str:
    """Text without line breaks: one step is one line of a file."""
    return " ".join(text.split())


def moment(time: datetime | str | None) -> str:
    """A time in ISO format with its zone; without one, UTC is meant; None is now.

    Example:
        >>> moment("2026-05-01"), moment("2026-05-01T12:30+02:00")
        ('2026-05-01T00:00:00+00:00', '2026-05-01T12:30:00+02:00')
    """
    if isinstance(time, str):
        try:
            time = datetime.fromisoformat(time)
        except ValueError as error:
            allowed = "a datetime, or ISO text such as 2026-05-01 or 2026-05-01T12:30"
            raise InvalidArgumentError("time", repr(time), allowed) from error
    found = time or datetime.now(UTC)
    if not isinstance(found, datetime):
        raise InvalidArgumentError("time", repr(time), "a datetime, or ISO text such as 2026-05-01")
    found = found if found.tzinfo else found.replace(tzinfo=UTC)
    return found.isoformat(timespec="seconds")
