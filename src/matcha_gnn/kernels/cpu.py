"""The same kernels for float32 on the CPU, by NumPy: one read of the stack, nothing to compile.

Sums over a block of nodes are taken in float32, by BLAS or in one pass of `einsum`; blocks are
added up in float64, in an order that does not depend on timing. For stacks that take longer to
read than a loop to compile, the two sums that NumPy is slow at are in `cpu_loops`.
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
_BLOCK = 1 << 22
"""Numbers of a block (16 MB) that is read once from memory, then for each column from cache."""
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
    flat, count = stack.numpy().reshape(len(stack), -1), weights.shape[1]
    if count > 1 and flat.size >= COMPILED_FROM and (loops := _loops()):
        sums = loops.class_sums(flat, weights.float().contiguous().numpy())
    else:
        sums = _sums_by_blas(flat, weights.T.float().contiguous().numpy())
    return np.asarray(sums).reshape(count, *stack.shape[1:])


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


def _sums_by_blas(flat: NDArray[np.float32], weights: NDArray[np.float32]) -> FloatArray:
    """Sums of rows [N, M] with weights [C, N], in float64, [C, M]."""
    sums = np.zeros((len(weights), flat.shape[1]))
    size = max(1, _BLOCK // flat.shape[1])
    for start in range(0, len(flat), size):
        rows, block = weights[:, start : start + size], flat[start : start + size]
        if len(rows) <= FEW:
            for total, row in zip(sums, rows, strict=True):
                total += row @ block
        else:
            sums += rows @ block
    return sums


@cache
def _loops() -> ModuleType | None:
    try:
        from matcha_gnn.kernels import cpu_loops
    except ImportError:
        return None
    return cpu_loops
