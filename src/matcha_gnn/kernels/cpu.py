"""The same kernels for float32 on the CPU, by NumPy: one read of the stack, nothing to compile.

Sums over a block of nodes are taken in float32, by BLAS or in one pass of `einsum`; blocks are
added up in float64, in an order that does not depend on timing. The one sum that NumPy is slow at,
the Gram matrix, is in `cpu_loops` for stacks that take longer to read than a loop to compile.
"""

from functools import cache
from types import ModuleType

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from matcha_gnn.kernels import reference
from matcha_gnn.kernels.threads import cuts_of, run
from matcha_gnn.typing import ClassSums, Coefficients, FloatArray, HopForm, HopStack, Repr

COMPILED_FROM = 1 << 24
"""Numbers of a stack (64 MB) from which a loop of our own is worth its compilation."""
FEW = 4
"""Columns up to which one matrix-vector product for each is faster than a product of matrices."""
BLOCK, CACHED_BLOCK = 1 << 22, 1 << 18
"""Numbers of a block that is read once, and of one (1 MB) that is read for several columns."""
_DOTS_BLOCK = 512
"""Nodes whose products are summed in float32."""


def mix(stack: HopStack, coef: Coefficients) -> Repr:
    """Twin of `reference.mix`."""
    hops, weights = stack.numpy(), coef.float().numpy()
    z, cuts = np.empty((len(hops), hops.shape[2]), np.float32), cuts_of(hops)

    def part(index: int) -> None:
        rows = slice(cuts[index], cuts[index + 1])
        np.einsum("nkd,k->nd", hops[rows], weights, out=z[rows])

    run(part, len(cuts) - 1)
    return torch.from_numpy(z)


def class_sums(stack: HopStack, weights: Tensor) -> ClassSums:
    """Twin of `reference.class_sums`."""
    flat, rows = stack.numpy().reshape(len(stack), -1), weights.T.float().contiguous().numpy()
    sums = np.zeros((len(rows), flat.shape[1]))
    size = max(1, (BLOCK if len(rows) == 1 else CACHED_BLOCK) // flat.shape[1])
    for start in range(0, len(flat), size):
        _add_sums(flat[start : start + size], rows[:, start : start + size], sums)
    return sums.reshape(-1, *stack.shape[1:])


class Classifier(reference.Classifier):
    """Twin of `reference.Classifier`."""

    class_sums = staticmethod(class_sums)


def hop_dots(stack: HopStack, directions: Repr) -> FloatArray:
    """Twin of `reference.hop_dots`."""
    hops, along = stack.numpy(), directions.numpy()
    cuts = cuts_of(hops)
    dots = np.zeros((len(cuts) - 1, hops.shape[1]))

    def part(index: int) -> None:
        for start in range(cuts[index], cuts[index + 1], _DOTS_BLOCK):
            rows = slice(start, min(start + _DOTS_BLOCK, cuts[index + 1]))
            dots[index] += np.einsum("nkd,nd->k", hops[rows], along[rows])

    run(part, len(dots))
    return np.asarray(dots.sum(0))


def gram(stack: HopStack, mean: FloatArray) -> HopForm:
    """Twin of `reference.gram`."""
    if stack.numel() >= COMPILED_FROM and (loops := _loops()):
        return np.asarray(loops.gram(stack.numpy(), mean.astype(np.float32)))
    return reference.gram(stack, mean)


def _add_sums(block: NDArray[np.float32], weights: NDArray[np.float32], sums: FloatArray) -> None:
    """Add the sums of rows [n, M] with weights [C, n] to those of other blocks [C, M]."""
    if len(weights) > FEW:
        sums += weights @ block
        return
    for total, row in zip(sums, weights, strict=True):
        total += row @ block


@cache
def _loops() -> ModuleType | None:
    try:
        from matcha_gnn.kernels import cpu_loops
    except ImportError:
        return None
    return cpu_loops
