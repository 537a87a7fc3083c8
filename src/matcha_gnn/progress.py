"""The progress bar of long runs: on a terminal or in a notebook, after a second."""

import sys
from typing import Any

from tqdm import tqdm

DELAY = 1.0
"""Seconds before a bar appears: most runs are shorter."""


class LateBar:
    """Called as progress(done, total); draws on a terminal's standard error, or in a notebook.

    Args:
        label: stands before the bar.
    """

    def __init__(self, label: str) -> None:
        self._label = label
        self._bar: Any = None

    def __call__(self, done: int, total: int) -> None:
        """Draw, if the delay has passed and there is somewhere to draw."""
        if self._bar is None:
            # None draws on a terminal alone; a notebook has none.
            nowhere = False if in_notebook() else None
            self._bar = tqdm(
                total=total, desc=self._label, delay=DELAY, leave=False, disable=nowhere
            )
        self._bar.update(done - self._bar.n)
        if done >= total:
            self._bar.close()


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    # A shell on a terminal has none.
    return getattr(shell, "kernel", None) is not None
