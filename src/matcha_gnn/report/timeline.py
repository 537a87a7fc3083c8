"""The timeline of a watch: one page with expected accuracy, decisions, alarms and shift."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from matcha_gnn.io.jsontext import json_text
from matcha_gnn.report.palette import BLUE, GREEN, GREY, ORANGE
from matcha_gnn.report.template import estimated, render, write
from matcha_gnn.watching.alarms import AlarmKind, Chance, Reference
from matcha_gnn.watching.steps import Step

SHOWN = (
    *("number", "time", "name", "chosen", "accuracy", "low", "high", "source_accuracy", "measured"),
    *("changed", "degree", "homophily", "shares_moved", "drift", "confidence", "nodes", "edges"),
    *("reason", "problem", "report", "repeats", "alarms"),
)
"""Figures that the drawings and the card of a graph need."""
MEASURES = {
    "homophily": "Edges inside a class (estimated)",
    "shares_moved": "Class shares moved from the source's",
    "degree": "Average degree",
    "drift": "Offset of node features, in standard deviations",
}
"""Shift measures, each with the title of its drawing."""
COLOURS = {"use": BLUE, "source": GREY, "measured": GREEN, "alarm": ORANGE}


class Bell(NamedTuple):
    """A line of the table of alarms."""

    kind: str
    meaning: str
    rang: int
    chance: str


def write_timeline(
    steps: Sequence[Step],
    reference: Reference,
    chances: Mapping[AlarmKind, Chance],
    path: str | Path,
) -> None:
    """Write the page; see `Watch.to_html`."""
    write(render_timeline(steps, reference, chances), path)


def render_timeline(
    steps: Sequence[Step], reference: Reference, chances: Mapping[AlarmKind, Chance]
) -> str:
    """The page as text.

    Args:
        steps: in any order of time.
        reference: what they were held against.
        chances: how often alarms ring on graphs resampled from the source.
    """
    ordered = sorted(steps, key=lambda step: (_instant(step), step.number))
    usable = [step for step in ordered if not step.problem]
    tiles = {
        "graphs": str(len(usable)),
        "newest expected accuracy": estimated(usable[-1].accuracy) if usable else "none",
        "adapted": f"{sum(step.adapted for step in usable)} of {len(usable)}",
        "with an alarm": f"{sum(bool(step.alarms) for step in usable)} of {len(usable)}",
        "could not be used": str(len(ordered) - len(usable)),
    }
    return render(
        "timeline.html.j2",
        steps=ordered,
        newest=usable[-1] if usable else None,
        tiles=tiles,
        bells=_bells(usable, reference, chances),
        measures=MEASURES,
        data=_script_json([_data(step) for step in ordered]),
        level=_script_json(reference.level),
        source=_script_json(_source(reference)),
        colours=_script_json(COLOURS),
    )


def _source(reference: Reference) -> dict[str, float]:
    """The shift measures of the source itself."""
    known = {"homophily": reference.homophily, "degree": reference.degree}
    return known | {"shares_moved": 0.0, "drift": 0.0}


def _instant(step: Step) -> float:
    return datetime.fromisoformat(step.time).timestamp()


def _bells(
    steps: Sequence[Step], reference: Reference, chances: Mapping[AlarmKind, Chance]
) -> list[Bell]:
    bells = []
    for kind, chance in chances.items():
        rang = sum(any(alarm.kind == kind for alarm in step.alarms) for step in steps)
        meaning = kind.meaning
        if kind is AlarmKind.LEVEL:
            off = reference.level is None
            meaning += " (no level was given)" if off else f" of {reference.level:.1%}"
        by_chance = f"{chance.rang} of {chance.graphs}" if chance.graphs else "not known"
        bells.append(Bell(kind, meaning, rang, by_chance))
    return bells


def _data(step: Step) -> dict[str, Any]:
    figures = step.figures()
    return {name: figures[name] for name in SHOWN}


def _script_json(value: Any) -> str:
    """JSON that cannot end the script element it stands in."""
    return json_text(value, indent=None).replace("<", "\\u003c")
