"""The command `matcha watch`; heavy imports wait until it runs."""

import hashlib
import re
from datetime import UTC, datetime
from pathlib import Path
from time import sleep, time
from typing import TYPE_CHECKING, Annotated

import typer

from matcha_gnn.cli.options import MetricName, Network, Positive, SourceFile, Weights
from matcha_gnn.errors import (
    IncompatibleError,
    InvalidArgumentError,
    InvalidFileError,
    InvalidGraphError,
)

if TYPE_CHECKING:
    from matcha_gnn.watch import Watch

TABLE, PAGE, PREDICTIONS = "watch.csv", "watch.html", "predictions"
HEADER = "node,label,probability,label_before"
SETTLED, PAUSE = 2.0, 5.0
"""Seconds in which a whole file does not change, and between two looks at the folder."""


def watch(
    places: Annotated[
        list[Path],
        typer.Argument(
            metavar="[MODEL] GRAPHS",
            help="A .safetensors model file, unless --network; and a folder of graph files.",
        ),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder to write.")],
    source: SourceFile = None,
    level: Annotated[
        float | None, typer.Option(help="An alarm rings where the estimate is below, as 0.8.")
    ] = None,
    metric: MetricName = "accuracy",
    positive: Positive = None,
    once: Annotated[bool, typer.Option("--once", help="Stop after the files there are.")] = False,
    network: Network = None,
    weights: Weights = None,
) -> None:
    """Follow a model over the graph files of a folder, by their dates, as they come.

    Writes watch.csv with a row for each file, watch.html, and labels as predictions/NAME.csv. What
    has a row is not read again: stopped and started again, a watch goes on where it was.
    """
    typer.echo("loading PyTorch …", err=True)
    from matcha_gnn.cli import console
    from matcha_gnn.cli.networks import given_model
    from matcha_gnn.cli.outputs import can_report
    from matcha_gnn.io.files import output_folder
    from matcha_gnn.watch import Watch

    *model, folder = places
    if len(model) > 1:
        raise InvalidArgumentError("arguments", f"{len(places)} paths", "MODEL GRAPHS, or GRAPHS")
    if not folder.is_dir():
        raise InvalidFileError("GRAPHS", f"{folder} (no such folder)", "a folder of graph files")
    trained = given_model(model[0] if model else None, network, weights)
    watched = Watch(trained, source=source, level=level, metric=metric, positive=positive)
    output_folder(output / PREDICTIONS)
    if (output / TABLE).exists():
        watched.resume(output / TABLE)
    page = can_report(console.say)
    seen: set[tuple[Path, int, int]] = set()
    try:
        while True:
            for when, path in _new_files(folder, seen):
                _observe(watched, when, path, output, page)
            if once:
                break
            sleep(PAUSE)
    except KeyboardInterrupt:
        console.say("stopped; the same command goes on from here")
    console.out.print(f"{len(watched.steps)} graphs in {output / TABLE}")


def _new_files(folder: Path, seen: set[tuple[Path, int, int]]) -> list[tuple[str, Path]]:
    """Whole graph files that were not seen as they are, by the date in their name or of change."""
    graphs = [p for p in folder.iterdir() if p.suffix in (".npz", ".pt") and p.name[0] != "."]
    new = {facts for facts in map(_facts, graphs) if facts} - seen
    if any(time() - changed / 1e9 < SETTLED for _, _, changed in new):
        sleep(SETTLED)
    for facts in [facts for facts in new if _facts(facts[0]) != facts]:
        typer.echo(f"{facts[0].name!r} is still being written: left for later", err=True)
        new.remove(facts)
    seen |= new
    return sorted((_date(path.name, changed), path) for path, _, changed in new)


def _facts(path: Path) -> tuple[Path, int, int] | None:
    """A file with its size and time of change in nanoseconds; None where there is none."""
    try:
        facts = path.stat()
    except OSError:
        return None
    return (path, facts.st_size, facts.st_mtime_ns) if path.is_file() else None


def _date(name: str, changed: int) -> str:
    found = re.search(r"\d{4}-\d{2}-\d{2}(T\d{2}:?\d{2})?", name)
    try:
        return datetime.fromisoformat(found[0] if found else "").isoformat()
    except ValueError:
        return datetime.fromtimestamp(changed / 1e9, UTC).isoformat(timespec="seconds")


def _observe(watched: "Watch", when: str, path: Path, output: Path, page: bool) -> None:
    """Write the labels of a file that has no row yet, then the table and the page."""
    import numpy as np
    from rich.text import Text

    from matcha_gnn.cli import console
    from matcha_gnn.io.files import replacing
    from matcha_gnn.io.graphfiles import read_graph

    try:
        version = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        version = "unreadable"
    if any((path.name, version) == (step.name, step.version) for step in watched.steps):
        return
    console.say(f"{path.name} …")
    try:
        graph = read_graph(path, check_labels=False)
        result = watched.observe(graph, when, path.name, version).result
    except (InvalidFileError, InvalidGraphError, IncompatibleError) as error:
        watched.skip(str(error), when, path.name, version)
    else:
        assert result is not None, "just observed"
        columns = result.labels, result.probs.amax(1), result.labels_before
        table = np.column_stack([np.arange(len(result.labels)), *(c.cpu() for c in columns)])
        with replacing(output / PREDICTIONS / f"{path.name}.csv") as beside:
            np.savetxt(beside, table, "%d,%d,%.6f,%d", header=HEADER, comments="")
    watched.to_csv(output / TABLE)
    if page:
        watched.to_html(output / PAGE)
    step = watched.steps[-1]
    console.out.print(Text(f"{path.name}: {step.summary}", "" if step.taken else "yellow"))
    for alarm, message in step.alarms.items():
        console.out.print(Text(f"  ALARM ({alarm.replace('_', ' ')}): {message}", "bold red"))
