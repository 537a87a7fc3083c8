"""The Gram matrix of stacks far beyond the cache, as a loop that numba compiles.

Every core takes one range of nodes, block by block; a block is summed in float32, then added up in
float64. Arrays are accessed by index only, which numba compiles several times faster than slices
and array arithmetic.
"""

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from matcha_gnn.kernels.threads import cuts_of, run
from matcha_gnn.typing import HopForm

# Sums may be reordered, but what is not a number must stay so: the loop stops at it.
FAST: Any = {
    "fastmath": {"reassoc", "contract", "nsz"},
    "error_model": "numpy",
    "nogil": True,
    "cache": True,
}


def gram(hops: NDArray[np.float32], mean: NDArray[np.float32]) -> HopForm:
    """See `reference.gram`."""
    _, num_hops, width = hops.shape
    cuts = cuts_of(hops)
    form = np.zeros((len(cuts) - 1, num_hops, num_hops))
    # As many nodes as fit a core's second-level cache beside their centred copy.
    block = max(1, (1 << 15) // (num_hops * width))
    apart = np.empty((len(form), num_hops, block * width), np.float32)
    run(_gram, len(form), hops, mean, cuts, apart, form)
    lower = form.sum(0)
    return np.asarray(lower + np.tril(lower, -1).T)


@numba.njit(**FAST)
def _gram(place, stack, mean, cuts, apart, form):  # type: ignore[no-untyped-def]
    num_hops, width = stack.shape[1], stack.shape[2]
    block = apart.shape[2] // width
    for first in range(cuts[place], cuts[place + 1], block):
        size = min(cuts[place + 1], first + block) - first
        for i in range(size):
            for k in range(num_hops):
                for d in range(width):
                    apart[place, k, i * width + d] = stack[first + i, k, d] - mean[k, d]
        for k in range(num_hops):
            for other in range(k + 1):
                dot = np.float32(0)
                for j in range(size * width):
                    dot += apart[place, k, j] * apart[place, other, j]
                form[place, k, other] += dot
