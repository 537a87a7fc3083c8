"""Follow a classifier over a stream of graphs: an estimate each, three alarms, a table, a page."""

import csv
import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from matcha_gnn.api import adapt, known_source, wanted_by
from matcha_gnn.errors import (
    InvalidArgumentError,
    InvalidFileError,
    NotAdaptedWarning,
    optional_imports,
    require_kind,
    require_number,
)
from matcha_gnn.evidence.summary import Source
from matcha_gnn.graphs.memory import GraphLike
from matcha_gnn.io.files import existing_file, replacing
from matcha_gnn.network.batches import Loader
from matcha_gnn.network.network import as_network
from matcha_gnn.result import Result

ALARMS = ("level", "class_shares", "distance")
LOWER, MOVED = 0.05, 0.1
"""Share of the level, and distance of class shares, by which an alarm is clearly worse."""


def _moment(time: str | None) -> str:
    """A time in ISO format with its zone."""
    try:
        when = datetime.now(UTC) if time is None else datetime.fromisoformat(time)
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError("time", repr(time), "ISO text such as 2026-05-01") from error
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).isoformat(timespec="seconds")


@dataclass(frozen=True)
class Step:
    """One graph of a stream, a row of the table; NaN is what cannot be told.

    Attributes:
        time: of the graph, in ISO format with its zone.
        name: of the graph, such as its file.
        version: what tells it from others of this name, such as a hash of the file.
        taken: the candidate that answers, "source" the model as it is; empty for a graph skipped.
        metric: what `estimate` is of, such as "accuracy" or "f1".
        estimate: expected metric of what was taken; `low` and `high` are its 90% interval.
        accuracy: expected accuracy of what was taken.
        changed: share of labels that differ from those of the model as it is.
        shares_moved: expected distance of class shares from the source's, less that of chance.
        broken: features cannot be what the source's are.
        summary: what was done and why, or why the graph could not be used.
        level: what this alarm says where it rings; so do `class_shares` and `distance`.
        level_since: when its condition began, where it lasts; so do the others.
        nodes: N.
        result: labels and all else that `adapt` returns; None in steps that a watch keeps.
    """

    time: str
    name: str = ""
    version: str = ""
    taken: str = ""
    metric: str = ""
    estimate: float = math.nan
    low: float = math.nan
    high: float = math.nan
    accuracy: float = math.nan
    changed: float = math.nan
    shares_moved: float = math.nan
    broken: bool = False
    level: str = ""
    level_since: str = ""
    class_shares: str = ""
    class_shares_since: str = ""
    distance: str = ""
    distance_since: str = ""
    summary: str = ""
    nodes: int = 0
    result: Result | None = field(default=None, repr=False, compare=False)

    @property
    def alarms(self) -> dict[str, str]:
        """What rings: messages by alarm."""
        return {alarm: getattr(self, alarm) for alarm in ALARMS if getattr(self, alarm)}


_READ: dict[Any, Any] = {bool: {"True": True, "False": False}.__getitem__}
COLUMNS: dict[str, Any] = {f.name: _READ.get(f.type, f.type) for f in fields(Step)[:-1]}
COLUMNS["time"] = _moment
"""Fields but the result, and how their text is read."""


class Watch:
    """Follow a trained classifier over graphs without labels, one after the other.

    Each graph is one `adapt` from the same model; nothing of a graph is used on the next. An alarm
    rings where its condition begins, and again where it is clearly worse than when it last rang.
    Where a condition cannot be told, it is as on the graph before.

    - `level`: the estimate is below the level. Again: by a further twentieth of the level.
    - `class_shares`: expected class shares are more than 10 points from the source's, beyond what
      chance explains in so many nodes. Again: by a further 10 points.
    - `distance`: the metric cannot be estimated. Again: the features are broken now.

    Args:
        model: a trained network, which is not changed, or a function of a graph; see `adapt`.
        source: its summary as for `adapt`, unless the model carries one.
        level: the lowest value of the metric that is good enough; None for no such alarm.
        metric: what is estimated; as `positive`, `classes` and `loader`, see `adapt`.
    """

    def __init__(
        self,
        model: Any,
        *,
        source: Source | None = None,
        level: float | None = None,
        metric: str = "accuracy",
        positive: int | str | None = None,
        classes: Sequence[str] | None = None,
        loader: Loader | None = None,
    ) -> None:
        wanted_by(metric, positive, classes, None)
        require_kind("loader", loader, Iterable | Callable | None, "a loader")  # type: ignore[arg-type]
        if level is not None:
            require_number("level", level, above=0, below=1)
        network = as_network(model, None)
        self.source = known_source(network, source)
        self.model, self.level, self.metric = model, level, metric
        self._options: dict[str, Any] = {"metric": metric, "positive": positive}
        self._options |= {"classes": classes, "loader": loader}
        self.steps: list[Step] = []

    def observe(
        self, graph: GraphLike, time: str | None = None, name: str = "", version: str = ""
    ) -> Step:
        """Adapt to the next graph, of a time in ISO text or now; labels are not read."""
        when = _moment(time)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotAdaptedWarning)
            result = adapt(self.model, graph, source=self.source, **self._options)
        step = Step(when, name, version, result=result, **self._figures(result))
        step = replace(step, **self._ringing(step))
        self.steps.append(replace(step, result=None))
        return step

    def skip(self, reason: str, time: str | None = None, name: str = "", version: str = "") -> None:
        """Note that there was a graph which could not be used, and why."""
        self.steps.append(Step(_moment(time), name, version, summary=reason))

    def table(self) -> list[dict[str, Any]]:
        """A row for each step: its fields but the result."""
        return [{column: getattr(step, column) for column in COLUMNS} for step in self.steps]

    def to_csv(self, path: str | Path) -> None:
        """Write the table, whole or not at all."""
        with replacing(path) as beside, open(beside, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, COLUMNS)
            writer.writeheader()
            writer.writerows(self.table())

    def resume(self, path: str | Path) -> None:
        """Go on from a table that `to_csv` wrote."""
        path = existing_file(path, "table")
        try:
            with open(path, newline="", encoding="utf-8") as file:
                rows = list(csv.DictReader(file, strict=True))
            self.steps = [Step(**{c: read(row[c]) for c, read in COLUMNS.items()}) for row in rows]
        except (KeyError, TypeError, ValueError, csv.Error) as error:
            got = f"{path} ({type(error).__name__}: {error})"
            raise InvalidFileError("table", got, "a table that Watch.to_csv wrote") from error

    def to_html(self, path: str | Path) -> None:
        """Write a page of one picture and the table, newest first; it needs the extra `report`."""
        with optional_imports("watch.html"):
            from matcha_gnn.report.template import render, write
        page = render("watch.html.j2", watch=self, alarms=ALARMS, picture=self._picture())
        write(page, path)

    def _figures(self, result: Result) -> dict[str, Any]:
        """What a step has of a result: all that is read of one."""
        source, taken, nodes = self.source, result.taken, len(result.labels)
        figures: dict[str, Any] = {
            "taken": result.chosen,
            "metric": self.metric,
            "changed": result.changed,
            "broken": result.broken,
            "summary": result.summary(),
            "nodes": nodes,
        }
        if taken.confusion is None or source is None:
            return figures
        prior, held_out = source.class_prior.double(), int(source.held_out)
        moved = (taken.confusion.sum(0) / nodes - prior).abs()
        draws = 1 / nodes + (1 / held_out if held_out else 0)
        chance = (2 * prior * (1 - prior) / math.pi * draws).sqrt()
        figures |= zip(("estimate", "low", "high"), taken.goal, strict=True)
        shares_moved = float((moved - chance).sum() / 2)
        return figures | {"accuracy": taken.accuracy.value, "shares_moved": shares_moved}

    def _ringing(self, step: Step) -> dict[str, Any]:
        """What the alarms say where they ring, and since when their conditions last."""
        earlier = [each for each in self.steps if each.metric == step.metric]
        ringing = dict[str, str]()
        for alarm, (excess, message) in self._conditions(step).items():
            since = getattr(earlier[-1], f"{alarm}_since") if earlier else ""
            if excess <= 0 or (math.isnan(excess) and not since):
                continue
            ringing[f"{alarm}_since"] = since or step.time
            rang = [self._conditions(each)[alarm][0] for each in earlier if alarm in each.alarms]
            if not (since and rang) or excess >= rang[-1] + 1:
                ringing[alarm] = message
        return ringing

    def _conditions(self, step: Step) -> dict[str, tuple[float, str]]:
        """Of each alarm how far its condition goes, above 0 where it holds, and what it says."""
        below = (self.level - step.estimate) / (LOWER * self.level) if self.level else -math.inf
        moved = f"Class shares moved by {step.shares_moved:.0%} of nodes more than chance explains."
        conditions = (
            (below, f"Below the level of {self.level}. {step.summary}"),
            (step.shares_moved / MOVED - 1, moved),
            (float(math.isnan(step.estimate) + step.broken), step.summary),
        )
        return dict(zip(ALARMS, conditions, strict=True))

    def _picture(self) -> str:
        """Estimates with their intervals over time, the level, and where an alarm rang."""
        from matcha_gnn.report.svg import COLOURS, INK, inline_svg, sheet

        low, middle, high = ([row[c] for row in self.table()] for c in ("low", "estimate", "high"))
        times: list[Any] = [datetime.fromisoformat(step.time) for step in self.steps]
        rang = [0.97 if step.alarms else math.nan for step in self.steps]
        with sheet() as (figure, axes):
            axes.vlines(times, low, high, color=COLOURS[0], alpha=0.4, label="90% interval")
            axes.plot(times, middle, "o", color=COLOURS[0], markersize=4, label="estimate")
            top = axes.get_xaxis_transform()
            axes.plot(times, rang, "v", color=COLOURS[1], transform=top, label="alarm")
            if self.level is not None:
                axes.axhline(self.level, color=INK, linestyle="--", linewidth=1, label="level")
            figure.legend(loc="outside upper center", ncols=2)
            figure.autofmt_xdate()
            return inline_svg(figure, "watch", "Estimates over time; the table has the figures.")
