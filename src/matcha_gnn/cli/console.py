"""What a person sees: progress bars on a terminal, silence elsewhere, tables everywhere."""

import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from matcha_gnn.errors import NotAdaptedWarning, printable
from matcha_gnn.io.jsontext import json_text
from matcha_gnn.typing import Progress as ProgressCall

PIPED_WIDTH = 160
"""Columns where there is no terminal to ask: wide enough for a table of eight columns."""


class PlainConsole(Console):
    """Prints names as they are: brackets are no markup, and escapes are shown, not sent."""

    def print(self, *objects: Any, **options: Any) -> None:
        """As `Console.print`."""
        shown = [_shown(each) if isinstance(each, str | Text) else each for each in objects]
        super().print(*shown, **{"markup": False, "emoji": False} | options)


def _shown(text: str | Text) -> str | Text:
    """With printable lines."""
    lines = "\n".join(map(printable, str(text).split("\n")))
    return Text(lines, style=text.style) if isinstance(text, Text) else lines


out = PlainConsole(width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else PIPED_WIDTH)
err = PlainConsole(stderr=True)


@contextmanager
def progress_bar(label: str, quiet: bool = False) -> Iterator[ProgressCall]:
    """Give a function to call with (done, total); it draws a bar only on a terminal."""
    if quiet or not err.is_terminal:
        yield lambda done, total: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeRemainingColumn(), console=err, transient=True) as bars:
        task = bars.add_task(label, total=None)
        yield lambda done, total: bars.update(task, completed=done, total=total)


@contextmanager
def warnings_as_lines() -> Iterator[None]:
    """Say each of this library's warnings as one line, but for what a summary says anyway."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default", UserWarning)
        yield
    for each in caught:
        if not issubclass(each.category, NotAdaptedWarning):
            say(printable(each.message))


def say(line: str) -> None:
    """One line beside what is printed, not broken."""
    err.print(line, soft_wrap=True, highlight=False, markup=False)


def point_to(path: Path) -> None:
    """The page to open, on a line of its own that is not broken."""
    out.print(f"Look at {path}", soft_wrap=True, highlight=False, markup=False)


def print_json(value: Any) -> None:
    """One JSON document on standard output; a number that does not exist is null."""
    sys.stdout.write(json_text(value) + "\n")


def print_rows(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table: the first column is text, the others are numbers."""
    table = Table(title=_shown(Text(title)), title_justify="left", title_style="bold")
    for position, name in enumerate(header):
        table.add_column(_shown(Text(name)), justify="left" if position == 0 else "right")
    for row in rows:
        table.add_row(*(_shown(Text(cell)) for cell in row))
    out.print(table)
