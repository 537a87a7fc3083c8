"""Compiled loops over ranges of nodes, one range for each core.

Plain Python threads: the loops release the interpreter's lock, and starting them takes some ten
microseconds. numba's parallel loops start faster, but take three times as long to compile, and its
default thread pool must not be entered from two threads at once.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any


def run(loop: Callable[..., None], ranges: int, *arguments: Any) -> None:
    """Call loop(i, *arguments) for the number i of every range, the first one in this thread."""
    others = [_pool().submit(loop, i, *arguments) for i in range(1, ranges)]
    loop(0, *arguments)
    for other in others:
        other.result()


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max(1, (os.cpu_count() or 1) - 1), "matcha-gnn")


# A forked process has none of its parent's threads: it starts its own.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)
