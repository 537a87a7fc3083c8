"""Seconds of work that is repeated, for the paper's time table and the benchmarks."""

from collections.abc import Callable

import torch

from matcha_gnn.gamma.timing import Stopwatch


def best_seconds(work: Callable[[], object], repeats: int) -> float:
    """The best of several runs after one that warms up; waits for the GPU where there is one.

    Example:
        >>> best_seconds(lambda: sum(range(10)), 3) < 1
        True
    """
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    seconds = []
    for _ in range(repeats + 1):
        watch = Stopwatch(device)
        with watch.stage("work"):
            work()
        seconds.append(watch.seconds["work"])
    return min(seconds[1:])
