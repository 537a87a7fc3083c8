"""The same kernels for float32 on the CPU, by NumPy: one read of the stack, nothing to compile.

Sums over a block of nodes are taken in float32, by BLAS or by `einsum`; blocks are
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
from matcha_gnn.typing import ClassSums, Coefficients, FloatArray, HopForm, HopStack, Probs, Repr

COMPILED_FROM = 1 << 24
"""Numbers of a stack (64 MB) from which a loop of our own is worth its compilation."""
SINGLE_THREAD = 9000
"""Numbers of a matrix up to which BLAS leaves a product with it to one thread.

Its own threads wait for work by spinning, on the cores that torch's threads spin on.
"""
_ITEMS = 256
"""Such matrices whose sums are added up in float32."""
_DOTS_BLOCK = 512
"""Nodes whose products are summed in float32."""


def mix(stack: HopStack, coef: Coefficients) -> Repr:
    """Twin of `reference.mix`."""
    hops, weights = stack.numpy(), coef.float().numpy()
    z, cuts = np.empty((len(hops), hops.shape[2]), np.float32), cuts_of(hops)

    def part(index: int) -> None:
        rows = slice(cuts[index], cuts[index + 1])
        np.matmul(weights, hops[rows], out=z[rows])

    run(part, len(cuts) - 1)
    return torch.from_numpy(z)


def class_sums(stack: HopStack, weights: Tensor) -> ClassSums:
    """Twin of `reference.class_sums`."""
    flat, rows = stack.numpy().reshape(len(stack), -1), weights.T.float().contiguous().numpy()
    cuts = cuts_of(flat)
    sums = np.zeros((len(cuts) - 1, len(rows), flat.shape[1]))

    def part(index: int) -> None:
        here = slice(cuts[index], cuts[index + 1])
        _add_sums(flat[here], rows[:, here], sums[index])

    run(part, len(sums))
    return np.asarray(sums.sum(0)).reshape(-1, *stack.shape[1:])


def _add_sums(flat: NDArray[np.float32], weights: NDArray[np.float32], sums: FloatArray) -> None:
    """Add the sums of rows [n, M] with weights [C, n], in one call for many small products."""
    size = max(1, SINGLE_THREAD // flat.shape[1])
    whole = len(flat) // size * size
    items = flat[:whole].reshape(-1, size, flat.shape[1])
    shares = weights[:, :whole].reshape(len(weights), -1, size).swapaxes(0, 1)
    for first in range(0, len(items), _ITEMS):
        some = slice(first, first + _ITEMS)
        sums += np.add.reduce(np.matmul(shares[some], items[some]), 0)
    sums += weights[:, whole:] @ flat[whole:]


class Classifier(reference.Classifier):
    """Twin of `reference.Classifier`; two classes, with the shortest rounds, in fewer calls."""

    class_sums = staticmethod(class_sums)

    def __call__(self, coef: Coefficients) -> tuple[Probs, ClassSums, FloatArray]:
        """Predictions, class sums and mass, in one read."""
        if len(self.bias) > 1:
            return super().__call__(coef)
        mixed = torch.mv(self.logits[:, 0].T, coef.to(self.logits)).add_(self.bias)
        share = mixed.sigmoid().add_(mixed, alpha=0)
        first = self.class_sums(self.stack, share[:, None])
        sums = np.concatenate([first, self.node_sums - first])
        mass = float(share.sum(dtype=torch.float64))
        probs = np.empty((len(share), 2), np.float32)
        probs[:, 0] = share.numpy()
        np.subtract(1, probs[:, 0], out=probs[:, 1])
        return torch.from_numpy(probs), sums, np.array([mass, len(share) - mass])


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


@cache
def _loops() -> ModuleType | None:
    try:
        from matcha_gnn.kernels import cpu_loops
    except ImportError:
        return None
    return cpu_loops
