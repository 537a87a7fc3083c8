"""The progress bar of long runs: on a terminal only, after a second."""

import sys
import weakref
from importlib.util import find_spec
from time import perf_counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

DELAY = 1.0
"""Seconds before a bar appears: most runs are shorter."""


class LateBar:
    """Called as progress(done, total); draws on standard error if that is a terminal.

    Without the package rich (extra `cli`) there is no bar.

    Args:
        label: stands before the bar.
        delay: seconds before it appears.
    """

    def __init__(self, label: str, delay: float = DELAY) -> None:
        self.label, self.delay = label, delay
        self._began = perf_counter()
        self._drawn: tuple[Progress, TaskID] | None = None

    def __call__(self, done: int, total: int) -> None:
        """Draw, if the delay has passed and there is a terminal."""
        if self._drawn is None:
            early = perf_counter() - self._began < self.delay
            if early or done >= total or not sys.stderr.isatty() or not find_spec("rich"):
                return
            self._drawn = self._draw()
        bars, task = self._drawn
        bars.update(task, completed=done, total=total)
        if done >= total:
            bars.stop()

    def _draw(self) -> "tuple[Progress, TaskID]":
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        bars = Progress(*columns, console=Console(stderr=True), transient=True)
        bars.start()
        # Remove the bar of a run that ends early.
        weakref.finalize(self, bars.stop)
        return bars, bars.add_task(self.label, total=None)
