"""Sums over stacks far beyond the cache, as loops that numba compiles.

Every core takes one range of nodes, block by block; a block is summed in float32, then added up in
float64. Four nodes are taken at a time, so that sums are loaded once for four rows of hops.

Compilation is what a user waits for on the first call: arrays are only ever touched by index, which
numba compiles several times faster than slices and array arithmetic.
"""

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from matcha_gnn.kernels.threads import cuts_of, run
from matcha_gnn.typing import FloatArray, HopForm

_BLOCK = 512
# Sums may be reordered, but what is not a number must stay so: the loop stops at it.
FAST: Any = {
    "fastmath": {"reassoc", "contract", "nsz"},
    "error_model": "numpy",
    "nogil": True,
    "cache": True,
}


def class_sums(flat: NDArray[np.float32], weights: NDArray[np.float32]) -> FloatArray:
    """Sums of rows [N, M] with weights [N, C], in float64, [C, M]."""
    cuts = cuts_of(flat)
    sums = np.zeros((len(cuts) - 1, weights.shape[1], flat.shape[1]))
    partial = np.zeros(sums.shape, np.float32)
    run(_class_sums, len(sums), flat, weights, cuts, partial, sums)
    return np.asarray(sums.sum(0))


def gram(hops: NDArray[np.float32], mean: NDArray[np.float32]) -> HopForm:
    """Twin of `reference.gram`."""
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
def _class_sums(part, flat, weights, cuts, partial, sums):  # type: ignore[no-untyped-def]
    for block in range(cuts[part], cuts[part + 1], _BLOCK):
        end = min(cuts[part + 1], block + _BLOCK)
        for i in range(block, end, 4):
            # Past the end the last row is taken again, with no weight.
            i1, i2, i3 = min(i + 1, end - 1), min(i + 2, end - 1), min(i + 3, end - 1)
            for c in range(sums.shape[1]):
                w0 = weights[i, c]
                w1 = weights[i1, c] if i + 1 < end else np.float32(0)
                w2 = weights[i2, c] if i + 2 < end else np.float32(0)
                w3 = weights[i3, c] if i + 3 < end else np.float32(0)
                for j in range(sums.shape[2]):
                    partial[part, c, j] += (
                        w0 * flat[i, j] + w1 * flat[i1, j] + w2 * flat[i2, j] + w3 * flat[i3, j]
                    )
        for c in range(sums.shape[1]):
            for j in range(sums.shape[2]):
                sums[part, c, j] += partial[part, c, j]
                partial[part, c, j] = 0


@numba.njit(**FAST)
def _gram(part, stack, mean, cuts, apart, form):  # type: ignore[no-untyped-def]
    num_hops, width = stack.shape[1], stack.shape[2]
    block = apart.shape[2] // width
    for first in range(cuts[part], cuts[part + 1], block):
        size = min(cuts[part + 1], first + block) - first
        for i in range(size):
            for k in range(num_hops):
                for d in range(width):
                    apart[part, k, i * width + d] = stack[first + i, k, d] - mean[k, d]
        for k in range(num_hops):
            for other in range(k + 1):
                dot = np.float32(0)
                for j in range(size * width):
                    dot += apart[part, k, j] * apart[part, other, j]
                form[part, k, other] += dot
