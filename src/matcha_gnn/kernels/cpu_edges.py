"""Products along the edges of graphs beyond the cache, by numba on the CPU: one range per core."""

import numba
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from matcha_gnn.kernels.cpu_loops import FAST
from matcha_gnn.kernels.cpu_sparse import _prefetch, balanced_cuts, product
from matcha_gnn.kernels.threads import run

Rows = tuple[NDArray[np.integer], NDArray[np.integer], NDArray[np.float32]]
"""A CSR matrix: row starts, columns and values."""

_AHEAD = 8
_FLOATS_PER_LINE = 16


def write_step(matrix: Rows, h: Tensor, share: float, base: Tensor, out: Tensor) -> None:
    """P h + share · base into `out`, all [N, D] in float32."""
    crow, col, values = matrix
    parts = torch.get_num_threads()
    cuts = balanced_cuts(crow, parts)
    given, added, written = (t.detach().numpy() for t in (h, base, out))
    step = (given, cuts, written, written, 0, added, np.float32(share))
    run(product, parts, crow, col, values, *step)


def add_dots(matrix: Rows, left: Tensor, right: Tensor) -> None:
    """Add ⟨left[v], right[u]⟩ to the value of each entry (v, u), in place."""
    crow, col, values = matrix
    parts = torch.get_num_threads()
    given = (t.detach().numpy() for t in (left, right))
    run(_add_dots, parts, crow, col, *given, balanced_cuts(crow, parts), values)


@numba.njit(**FAST)
def _add_dots(part, crow, col, left, right, cuts, values):  # type: ignore[no-untyped-def]
    width, last, flat = left.shape[1], len(col) - 1, right.reshape(-1)
    for v in range(cuts[part], cuts[part + 1]):
        for entry in range(crow[v], crow[v + 1]):
            ahead = np.intp(col[min(entry + _AHEAD, last)])
            for d in range(0, width, _FLOATS_PER_LINE):
                _prefetch(flat, ahead * width + d)  # type: ignore[call-arg]
            u, dot = col[entry], np.float32(0)
            for d in range(width):
                dot += left[v, d] * right[u, d]
            values[entry] += dot
