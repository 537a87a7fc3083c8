"""What `matcha watch` does: follow a folder, and write what is found after every graph."""

import json as json_module
import re
import time as clock
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from rich.text import Text

from matcha_gnn.cli import console
from matcha_gnn.cli.commands import Job, for_scores
from matcha_gnn.cli.networks import given_model
from matcha_gnn.errors import InvalidArgumentError, InvalidFileError, MatchaError
from matcha_gnn.evidence.given import Source
from matcha_gnn.graphs.memory import GraphLike
from matcha_gnn.io.files import append_line, holding, output_folder, trim_lines
from matcha_gnn.io.graphfiles import read_graph
from matcha_gnn.io.jsontext import json_text
from matcha_gnn.io.outputs import PAGE, Made, can_report, write_outputs
from matcha_gnn.io.tables import csv_line
from matcha_gnn.watching import Step, Watch

STATE, TABLE, EVENTS = "state.safetensors", "timeline.csv", "events.jsonl"
TIMELINE, LOCK, GRAPHS = "timeline.html", ".lock", "graphs"
KINDS = (".npz", ".pt")
SETTLED = 2.0
"""Seconds that a new file must not change before it is read: it may still be written."""
OLD = 60.0
"""Seconds after its last change from which a file is taken to be whole at once."""
DATE = re.compile(r"(\d{4}-\d{2}-\d{2})(?:[T_ ](\d{2})[:h-]?(\d{2}))?")
RANG = 3
"""Exit status where an alarm rings on the newest graph and --fail-on-alarm was given."""


@dataclass(frozen=True)
class Order:
    """What `matcha watch` is asked for beside what `matcha adapt` is, too."""

    folder: Path
    source: Path | None
    level: float | None
    once: bool
    every: float
    fail_on_alarm: bool


@dataclass(frozen=True, order=True)
class Arrival:
    """A file of the folder, in the order in which files are read.

    Attributes:
        time: of the graph: the date in the name, else the last change of the file.
        name: of the file.
        version: its size and last change: another one means another graph.
        path: of the file.
    """

    time: str
    name: str
    version: str = field(compare=False)
    path: Path = field(compare=False)

    @classmethod
    def of(cls, path: Path) -> "Arrival | None":
        """A file as it is now; None where it has gone."""
        try:
            facts = path.stat()
        except OSError:
            return None
        changed = datetime.fromtimestamp(facts.st_mtime, UTC)
        version = f"{facts.st_size} bytes, {facts.st_mtime_ns}"
        return cls((_dated(path.name) or changed).isoformat(), path.name, version, path)


def _dated(name: str) -> datetime | None:
    """The date in a file's name, such as 2026-05-01 or 2026-05-01T12-30."""
    found = DATE.search(name)
    if found is None:
        return None
    day, hour, minute = found.groups()
    try:
        return datetime.fromisoformat(f"{day}T{hour or '00'}:{minute or '00'}+00:00")
    except ValueError:
        return None


class Inbox:
    """The files of a folder that are whole and were not read yet.

    Args:
        folder: to look at; not its subfolders.
        read: versions of files that were read before, by name.
    """

    def __init__(self, folder: Path, read: dict[str, str]) -> None:
        self.folder, self.read = folder, read
        self._since: dict[str, tuple[str, float]] = {}

    def look(self) -> tuple[list[Arrival], bool]:
        """New files that are whole, in their order, and whether others are still written."""
        try:
            paths = [path for path in self.folder.iterdir() if _is_graph(path)]
        except OSError as error:
            got = f"{self.folder} ({error.strerror})"
            raise InvalidFileError("folder", got, "a folder of graph files") from error
        found = [arrival for path in paths if (arrival := Arrival.of(path)) is not None]
        new = [arrival for arrival in found if self.read.get(arrival.name) != arrival.version]
        whole = [arrival for arrival in new if self._settled(arrival)]
        return sorted(whole), len(whole) < len(new)

    def _settled(self, arrival: Arrival) -> bool:
        """Unchanged for some time, by this process's clock or by a last change long ago."""
        if clock.time() - int(arrival.version.split()[-1]) / 1e9 > OLD:
            return True
        version, since = self._since.get(arrival.name, ("", 0.0))
        if version != arrival.version:
            since = clock.monotonic()
            self._since[arrival.name] = arrival.version, since
        return clock.monotonic() - since >= SETTLED


def _is_graph(path: Path) -> bool:
    return path.suffix in KINDS and not path.name.startswith(".") and path.is_file()


class Journal:
    """The files that a watch writes. Rows are added, then the state is replaced, then the rest.

    So a run that is killed at any time goes on from its state: rows beyond it are cut off.

    Args:
        folder: to write to.
        watch: whose files they are.
        page: draw the timeline.
    """

    def __init__(self, folder: Path, watch: Watch, page: bool) -> None:
        self.folder, self.watch, self.page = folder, watch, page

    def resume(self) -> dict[str, str]:
        """Go on from the state, where there is one; returns versions of files read, by name."""
        if (self.folder / STATE).exists():
            self.watch.restore(self.folder / STATE)
        number = self.watch.number
        rows = trim_lines(self.folder / EVENTS, number)
        lines = trim_lines(self.folder / TABLE, number + 1 if number else 0)
        if (len(rows), max(0, len(lines) - 1)) != (number, number):
            got = f"{self.folder} ({len(rows)} rows in {EVENTS}, {number} steps in {STATE})"
            raise InvalidFileError("output folder", got, "the files of one watch, or none")
        if self.watch.steps:
            # A run that was killed may not have written it.
            self._show()
        return dict(map(_file_of, rows))

    def add(self, step: Step) -> None:
        """Write all files for one more step."""
        append_line(self.folder / EVENTS, json_text(step.figures(), indent=None))
        row = step.row()
        if step.number == 1:
            append_line(self.folder / TABLE, csv_line(list(row)))
        append_line(self.folder / TABLE, csv_line(list(row.values())))
        self.watch.save(self.folder / STATE)
        self._show()

    def _show(self) -> None:
        if self.page:
            self.watch.to_html(self.folder / TIMELINE)


def _file_of(row: str) -> tuple[str, str]:
    """Name and version of the file that a row of events is about."""
    try:
        figures = json_module.loads(row)
        return str(figures["name"]), str(figures["version"])
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidFileError(EVENTS, row[:60], "rows that matcha watch wrote") from error


def watch(job: Job, order: Order) -> int:
    """Follow a folder; returns the exit status."""
    if not order.folder.is_dir():
        raise InvalidFileError("folder", f"{order.folder} (no such folder)", "an existing folder")
    if order.every <= 0:
        raise InvalidArgumentError("--every", order.every, "a number of seconds above 0")
    if order.fail_on_alarm and not order.once:
        allowed = "--once --fail-on-alarm: without --once there is no end"
        raise InvalidArgumentError("--fail-on-alarm", "no --once", allowed)
    watched = Watch(
        given_model(job.model, job.network, job.weights),
        job.base_method(),
        job.chosen_strategy(),
        source=_source(order.source),
        level=order.level,
        seed=job.seed,
    )
    page = can_report(console.say)
    with _alone(output_folder(job.output)):
        journal = Journal(job.output, watched, page)
        follow(job, order, journal, Inbox(order.folder, journal.resume()))
    rings = any(step.alarms for step in watched.steps[-1:])
    if not job.json:
        _say_end(watched, job.output, page)
    return RANG if rings and order.fail_on_alarm else 0


def _source(path: Path | None) -> Source | None:
    """A graph file, or a source summary by its path."""
    if path is None or path.suffix not in KINDS:
        return path
    graph: GraphLike = read_graph(path, check_labels=False)
    return graph


def follow(job: Job, order: Order, journal: Journal, inbox: Inbox) -> None:
    """Read what is there and, unless once is enough, what comes; until it is interrupted."""
    try:
        while True:
            arrivals, waiting = inbox.look()
            for arrival in arrivals:
                step = observed(job, journal, arrival)
                if step is not None:
                    inbox.read[arrival.name] = arrival.version
                    _say(step, job.json)
            if order.once and not waiting and not arrivals:
                return
            if not arrivals:
                clock.sleep(min(order.every, SETTLED / 4) if waiting else order.every)
    except KeyboardInterrupt:
        console.say("stopped; the same command goes on from here")


def observed(job: Job, journal: Journal, arrival: Arrival) -> Step | None:
    """Adapt to a file and write the files; None where it has changed or gone meanwhile."""
    watched = journal.watch
    number = watched.number + 1
    place = f"{GRAPHS}/{number:06d}-{re.sub(r'[^A-Za-z0-9._-]', '_', arrival.path.stem)[:80]}"
    try:
        graph = read_graph(arrival.path, check_labels=False)
        step = watched.observe(graph, arrival.time, arrival.name)
    except MatchaError as error:
        now = Arrival.of(arrival.path)
        if now is None or now.version != arrival.version:
            return None
        watched.skip(str(error), arrival.time, arrival.name)
        step = watched.annotate(version=arrival.version)
    else:
        assert step.result is not None, "just observed"
        command = f"matcha adapt {job.named_model} {arrival.path} -o {place}"
        folder = output_folder(job.output / place)
        made = Made(command, arrival.path.name, journal.page)
        summary = write_outputs(step.result, folder, *for_scores(graph), made)
        measured = summary["accuracy_after"]
        step = watched.annotate(
            measured=float("nan") if measured is None else measured,
            report=f"{place}/{PAGE}" if journal.page else "",
            version=arrival.version,
        )
    journal.add(step)
    return step


def _alone(folder: Path) -> AbstractContextManager[None]:
    """Only one process at a time writes to a folder."""
    got = f"{folder} (another matcha watch writes there)"
    refused = InvalidFileError("output folder", got, "a folder of its own")
    return holding(folder / LOCK, refused)


def _say(step: Step, json: bool) -> None:
    if json:
        print(json_text(step.figures(), indent=None), flush=True)
        return
    head = f"{step.time[:16].replace('T', ' ')} {step.name}: "
    if step.problem:
        console.out.print(Text(head + f"could not be used: {step.problem}", style="yellow"))
        return
    console.out.print(Text(head + step.reason))
    for alarm in step.alarms:
        console.out.print(Text(f"  ALARM ({alarm.kind}): {alarm}", style="bold red"))


def _say_end(watched: Watch, folder: Path, page: bool) -> None:
    rang = sum(bool(step.alarms) for step in watched.steps)
    console.out.print(f"{watched.number} graphs so far; an alarm rang on {rang}.")
    if page and watched.steps:
        console.point_to(folder / TIMELINE)
