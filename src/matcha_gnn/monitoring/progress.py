"""The progress bar of long runs: on a terminal or in a notebook, after a second."""

import sys
import weakref
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from time import perf_counter
from typing import Any, Protocol

DELAY = 1.0
"""Seconds before a bar appears: most runs are shorter."""


class LateBar:
    """Called as progress(done, total); draws on a terminal's standard error, or in a notebook.

    On a terminal without the package rich (extra `cli`) there is no bar.

    Args:
        label: stands before the bar.
        delay: seconds before it appears.
    """

    def __init__(self, label: str, delay: float = DELAY) -> None:
        self.label, self.delay = label, delay
        self._began = perf_counter()
        self._bar: _Bar | None = None

    def __call__(self, done: int, total: int) -> None:
        """Draw, if the delay has passed and there is somewhere to draw."""
        if self._bar is None:
            early = perf_counter() - self._began < self.delay
            make = None if early or done >= total else _kind_of_bar()
            if make is None:
                return
            self._bar = make(self.label)
            # Remove the bar of a run that ends early.
            weakref.finalize(self, self._bar.close)
        self._bar.show(done, total)
        if done >= total:
            self._bar.close()


class _Bar(Protocol):
    def show(self, done: int, total: int) -> None:
        """So much is done."""

    def close(self) -> None:
        """Remove the bar; a second call does nothing."""


class _TerminalBar:
    def __init__(self, label: str) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        self._bars = Progress(*columns, console=Console(stderr=True), transient=True)
        self._bars.start()
        self._task = self._bars.add_task(label, total=None)

    def show(self, done: int, total: int) -> None:
        """See `_Bar`."""
        self._bars.update(self._task, completed=done, total=total)

    def close(self) -> None:
        """See `_Bar`."""
        self._bars.stop()


class _NotebookBar:
    """As a widget where ipywidgets is installed, else as text."""

    def __init__(self, label: str) -> None:
        if find_spec("ipywidgets"):
            from tqdm.notebook import tqdm
        else:
            from tqdm import tqdm
        self._make = partial(tqdm, desc=label, leave=False)
        self._bar: Any = None

    def show(self, done: int, total: int) -> None:
        """See `_Bar`."""
        if self._bar is None:
            self._bar = self._make(total=total, initial=done)
        self._bar.update(done - self._bar.n)

    def close(self) -> None:
        """See `_Bar`."""
        self._bar.close()


def _kind_of_bar() -> Callable[[str], _Bar] | None:
    if in_notebook() and find_spec("tqdm"):
        return _NotebookBar
    return _TerminalBar if sys.stderr.isatty() and find_spec("rich") else None


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    # A shell on a terminal has none.
    return getattr(shell, "kernel", None) is not None
