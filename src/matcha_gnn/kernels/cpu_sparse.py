"""Sparse products for graphs that do not fit a cache, compiled by numba for the CPU.

There the time goes into waiting for the rows of neighbours, which lie anywhere in memory. Their
addresses are known in advance: each row is asked for sixteen entries before it is used.
"""

from typing import Any

import llvmlite.ir
import numba
import numpy as np
from numba.core import cgutils, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from matcha_gnn.kernels.cpu_loops import FAST

_AHEAD = 16
_FLOATS_PER_LINE = 16


@intrinsic
def _prefetch(typing_context: Any, array: Any, index: Any) -> Any:
    """Ask for the cache line of a flat array's entry, without waiting for it."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> None:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        byte, number = llvmlite.ir.IntType(8).as_pointer(), llvmlite.ir.IntType(32)
        kind = llvmlite.ir.FunctionType(llvmlite.ir.VoidType(), [byte, number, number, number])
        ask = cgutils.get_or_insert_function(  # type: ignore[no-untyped-call]
            builder.module, kind, "llvm.prefetch.p0"
        )
        address = builder.bitcast(builder.gep(data, [arguments[1]]), byte)
        read, keep, data_cache = number(0), number(3), number(1)
        builder.call(ask, [address, read, keep, data_cache])

    return types.void(array, types.intp), build


def balanced_cuts(crow: NDArray[np.integer], parts: int) -> NDArray[np.intp]:
    """Rows at which to cut a CSR matrix so that parts hold about equally many entries."""
    cuts = np.searchsorted(crow, np.linspace(0, crow[-1], parts + 1)).astype(np.intp)
    cuts[0], cuts[-1] = 0, len(crow) - 1
    return cuts


@numba.njit(**FAST)
def product(  # type: ignore[no-untyped-def]
    part, crow, col, values, h, cuts, out, also, offset, base, share
):
    """Rows of P h + share · base into `out` [N, D], and from column `offset` into `also` too."""
    width, last, flat = h.shape[1], len(col) - 1, h.reshape(-1)
    for i in range(cuts[part], cuts[part + 1]):
        for entry in range(crow[i], crow[i + 1]):
            sender = np.intp(col[min(entry + _AHEAD, last)])
            for d in range(0, width, _FLOATS_PER_LINE):
                _prefetch(flat, sender * width + d)  # type: ignore[call-arg]
        entry, stop = crow[i], crow[i + 1]
        for d in range(width):
            out[i, d] = share * base[i, d]
        while entry + 4 <= stop:
            w0, w1, w2, w3 = values[entry], values[entry + 1], values[entry + 2], values[entry + 3]
            c0, c1, c2, c3 = col[entry], col[entry + 1], col[entry + 2], col[entry + 3]
            for d in range(width):
                out[i, d] += w0 * h[c0, d] + w1 * h[c1, d] + w2 * h[c2, d] + w3 * h[c3, d]
            entry += 4
        while entry < stop:
            w0, c0 = values[entry], col[entry]
            for d in range(width):
                out[i, d] += w0 * h[c0, d]
            entry += 1
        for d in range(width):
            also[i, offset + d] = out[i, d]
