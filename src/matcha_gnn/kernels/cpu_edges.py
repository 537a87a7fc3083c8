"""Dot products along the edges of graphs beyond the cache, compiled by numba for the CPU.

Most of the time is spent waiting for the rows of neighbours, which are scattered in memory. Their
addresses are known in advance: each row is prefetched some entries before it is used.
"""

from typing import Any

import llvmlite.ir
import numba
import numpy as np
import torch
from numba.core import cgutils, types
from numba.extending import intrinsic
from numpy.typing import NDArray
from torch import Tensor

from matcha_gnn.kernels.threads import run

# Sums may be reordered, but what is not a number must stay so: the loop stops at it.
FAST: Any = {
    "fastmath": {"reassoc", "contract", "nsz"},
    "error_model": "numpy",
    "nogil": True,
    "cache": True,
}
_AHEAD = 8
_FLOATS_PER_LINE = 16


def add_dots(sampled: Tensor, left: Tensor, right: Tensor) -> None:
    """Add ⟨left[v], right[u]⟩ to the value of each entry (v, u) of a CSR tensor, in place."""
    tensors = sampled.crow_indices(), sampled.col_indices(), sampled.values(), left, right
    crow, col, values, *given = (tensor.detach().numpy() for tensor in tensors)
    threads = torch.get_num_threads()
    run(_add_dots, threads, crow, col, values, *given, balanced_cuts(crow, threads))


def balanced_cuts(crow: NDArray[np.integer], ranges: int) -> NDArray[np.intp]:
    """Rows at which to cut a CSR matrix into ranges with about equally many entries.

    Example:
        >>> balanced_cuts(np.array([0, 4, 5, 6, 8]), 2).tolist()
        [0, 1, 4]
    """
    cuts = np.searchsorted(crow, np.linspace(0, crow[-1], ranges + 1)).astype(np.intp)
    cuts[0], cuts[-1] = 0, len(crow) - 1
    return cuts


@intrinsic
def _prefetch(typing_context: Any, array: Any, index: Any) -> Any:
    """Prefetch the cache line of a flat array's entry."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> None:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        byte, number = llvmlite.ir.IntType(8).as_pointer(), llvmlite.ir.IntType(32)
        kind = llvmlite.ir.FunctionType(llvmlite.ir.VoidType(), [byte, number, number, number])
        prefetch = cgutils.get_or_insert_function(  # type: ignore[no-untyped-call]
            builder.module, kind, "llvm.prefetch.p0"
        )
        address = builder.bitcast(builder.gep(data, [arguments[1]]), byte)
        read, keep, data_cache = number(0), number(3), number(1)
        builder.call(prefetch, [address, read, keep, data_cache])

    return types.void(array, types.intp), build


@numba.njit(**FAST)
def _add_dots(place, crow, col, values, left, right, cuts):  # type: ignore[no-untyped-def]
    width, last, flat = left.shape[1], len(col) - 1, right.reshape(-1)
    for v in range(cuts[place], cuts[place + 1]):
        for entry in range(crow[v], crow[v + 1]):
            ahead = np.intp(col[min(entry + _AHEAD, last)])
            for d in range(0, width, _FLOATS_PER_LINE):
                _prefetch(flat, ahead * width + d)  # type: ignore[call-arg]
            u, dot = col[entry], np.float32(0)
            for d in range(width):
                dot += left[v, d] * right[u, d]
            values[entry] += dot
