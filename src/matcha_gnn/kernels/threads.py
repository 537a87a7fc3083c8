"""Compiled loops over ranges of nodes, one range for each core.

Plain Python threads: the loops let go of the interpreter's lock, and starting them takes some ten
microseconds. numba's own parallel loops start faster, but compile three times longer, and its
default thread pool must not be entered from two threads at once.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

SMALLEST_PART = 1 << 19
"""Numbers to read (2 MB) for which a thread of its own pays."""


def run(loop: Callable[..., None], parts: int, *arguments: Any) -> None:
    """Call loop(part, *arguments) for every part, the first one in this thread."""
    others = [_pool().submit(loop, part, *arguments) for part in range(1, parts)]
    loop(0, *arguments)
    for other in others:
        other.result()


@cache
def cuts(num_nodes: int, numbers: int, threads: int) -> NDArray[np.intp]:
    """Where each range of nodes starts, and the end, for a stack of so many numbers."""
    parts = max(1, min(threads, numbers // SMALLEST_PART))
    return np.arange(parts + 1, dtype=np.intp) * num_nodes // parts


def cuts_of(array: NDArray[Any]) -> NDArray[np.intp]:
    """The same for an array [N, …], with as many threads as torch may use."""
    return cuts(len(array), array.size, torch.get_num_threads())


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max(1, (os.cpu_count() or 1) - 1), "matcha-gnn")


# A forked process has none of its parent's threads: it starts its own.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)
