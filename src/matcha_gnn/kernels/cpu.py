"""The same kernels as loops that read each node's hops once, compiled by numba for the CPU.

Every core takes one range of nodes, block by block: softmax for all nodes of a block side by side,
as vector instructions want it, then the sums, four nodes at a time, so that weights and sums are
loaded once for four rows of hops. A block is summed in float32, then added up in float64, in an
order that does not depend on timing.

Compilation is what a user waits for on the first call: arrays are only ever touched by index, which
numba compiles several times faster than slices and array arithmetic.
"""

from typing import Any

import numba
import numpy as np
import torch
from torch import Tensor

from matcha_gnn.kernels import reference
from matcha_gnn.kernels.threads import cuts_of, run
from matcha_gnn.typing import ClassSums, Coefficients, FloatArray, HopForm, HopStack, Probs, Repr

_BLOCK = 512
_NOT_WORTH_COMPILING = 1 << 21
"""Numbers for which what runs once for a graph is faster done plainly than compiled."""
# Sums may be reordered, but what is not a number must stay so: the loop stops at it.
FAST: Any = {
    "fastmath": {"reassoc", "contract", "nsz"},
    "error_model": "numpy",
    "nogil": True,
    "cache": True,
}
INLINE: Any = {**FAST, "inline": "always"}


class Classifier:
    """Twin of `reference.Classifier` for float32 on the CPU."""

    def __init__(
        self, stack: HopStack, logits: Tensor, bias: Tensor, node_sums: FloatArray
    ) -> None:
        self.shape = (len(bias) + 1, *stack.shape[1:])
        self.flat = stack.numpy().reshape(len(stack), -1)
        self.cuts = cuts_of(self.flat)
        self.logits, self.bias, self.node_sums = logits.numpy(), bias.numpy(), node_sums.reshape(-1)

    def __call__(self, coef: Coefficients) -> tuple[Probs, ClassSums, FloatArray]:
        """Predictions, class sums and mass, in one read."""
        num_nodes, width = self.flat.shape
        parts, classes = len(self.cuts) - 1, self.shape[0]
        probs = np.empty((num_nodes, classes), np.float32)
        sums, mass = np.zeros((parts, classes, width)), np.zeros((parts, classes))
        weights = np.array(coef.tolist(), np.float32)
        work = self.flat, self.logits, weights, self.bias, self.cuts, probs, sums, mass
        run(_classify, parts, *work)
        _close(sums, mass, self.node_sums)
        return torch.from_numpy(probs), sums[0].reshape(self.shape), mass[0]


def mix(stack: HopStack, coef: Coefficients) -> Repr:
    """Twin of `reference.mix` for float32 on the CPU."""
    z = np.empty((len(stack), stack.shape[2]), np.float32)
    hops = stack.numpy()
    cuts = cuts_of(hops)
    run(_mix, len(cuts) - 1, hops, coef.float().numpy(), cuts, z)
    return torch.from_numpy(z)


def class_sums(stack: HopStack, weights: Tensor) -> ClassSums:
    """Twin of `reference.class_sums` for float32 on the CPU."""
    flat, rows = stack.numpy().reshape(len(stack), -1), weights.float().contiguous().numpy()
    cuts = cuts_of(flat)
    sums = np.zeros((len(cuts) - 1, rows.shape[1], flat.shape[1]))
    run(_class_sums, len(cuts) - 1, flat, rows, cuts, sums)
    return np.asarray(sums.sum(0).reshape(-1, *stack.shape[1:]))


def hop_dots(stack: HopStack, directions: Repr) -> FloatArray:
    """Twin of `reference.hop_dots` for float32 on the CPU."""
    hops = stack.numpy()
    cuts = cuts_of(hops)
    dots = np.zeros((len(cuts) - 1, stack.shape[1]))
    run(_hop_dots, len(cuts) - 1, hops, directions.numpy(), cuts, dots)
    return np.asarray(dots.sum(0))


def gram(stack: HopStack, mean: FloatArray) -> HopForm:
    """Twin of `reference.gram` for float32 on the CPU."""
    if stack.numel() <= _NOT_WORTH_COMPILING:
        return reference.gram(stack, mean)
    return gram_of_block(stack, mean)


def gram_of_block(stack: HopStack, mean: FloatArray) -> HopForm:
    """The same for one of many blocks, for which compiling pays."""
    hops, num_hops, width = stack.numpy(), stack.shape[1], stack.shape[2]
    cuts = cuts_of(hops)
    form = np.zeros((len(cuts) - 1, num_hops, num_hops))
    # As many nodes as fit a core's second-level cache beside their centred copy.
    block = max(1, (1 << 15) // (num_hops * width))
    run(_gram, len(cuts) - 1, hops, mean.astype(np.float32), block, cuts, form)
    return np.asarray(form.sum(0))


def between_form(
    class_sums: ClassSums, mass: FloatArray, mean: FloatArray, min_share: float
) -> HopForm:
    """Twin of `functional.between_form`, whose numpy calls are a tenth of a small graph's round."""
    form = np.zeros((len(mean), len(mean)))
    _between_form(class_sums, mass, mean, min_share, form)
    return form


@numba.njit(**FAST)
def _close(sums, mass, node_sums):  # type: ignore[no-untyped-def]
    """Add the threads' parts into the first, and fill in the last class."""
    threads, classes, width = sums.shape
    for c in range(classes):
        for t in range(1, threads):
            mass[0, c] += mass[t, c]
            for j in range(width):
                sums[0, c, j] += sums[t, c, j]
    for j in range(width):
        rest = node_sums[j]
        for c in range(classes - 1):
            rest -= sums[0, c, j]
        sums[0, classes - 1, j] = rest


@numba.njit(**FAST)
def _classify(  # type: ignore[no-untyped-def]
    part, flat, logits, coef, bias, cuts, probs, sums, mass
):
    start, stop, classes = cuts[part], cuts[part + 1], probs.shape[1]
    rows = np.empty((classes + 2, _BLOCK), np.float32)
    partial = np.zeros((classes - 1, flat.shape[1]), np.float32)
    for block in range(start, stop, _BLOCK):
        end = min(stop, block + _BLOCK)
        _softmax_block(logits, coef, bias, block, end, rows)
        for c in range(classes):
            share = np.float32(0)
            for j in range(end - block):
                probs[block + j, c] = rows[c, j]
                share += rows[c, j]
            mass[part, c] += share
        _class_sums_range(flat, probs, block, end, part, partial, sums)


@numba.njit(**FAST)
def _mix(part, stack, coef, cuts, z):  # type: ignore[no-untyped-def]
    for i in range(cuts[part], cuts[part + 1]):
        for d in range(z.shape[1]):
            z[i, d] = coef[0] * stack[i, 0, d]
        for k in range(1, coef.shape[0]):
            for d in range(z.shape[1]):
                z[i, d] += coef[k] * stack[i, k, d]


@numba.njit(**FAST)
def _class_sums(part, flat, weights, cuts, sums):  # type: ignore[no-untyped-def]
    partial = np.zeros((sums.shape[1], sums.shape[2]), np.float32)
    _class_sums_range(flat, weights, cuts[part], cuts[part + 1], part, partial, sums)


@numba.njit(**INLINE)
def _class_sums_range(flat, weights, start, stop, part, partial, sums):  # type: ignore[no-untyped-def]
    """Sums with the first columns of `weights`, as many as `partial` has rows; it stays zero."""
    for block in range(start, stop, _BLOCK):
        end = min(stop, block + _BLOCK)
        fours = block + (end - block) // 4 * 4
        for i in range(block, fours, 4):
            _add_four(flat, weights, i, partial)
        for c in range(partial.shape[0]):
            for i in range(fours, end):
                for j in range(partial.shape[1]):
                    partial[c, j] += weights[i, c] * flat[i, j]
            for j in range(partial.shape[1]):
                sums[part, c, j] += partial[c, j]
                partial[c, j] = 0


@numba.njit(**INLINE)
def _softmax_block(logits, coef, bias, start, stop, rows):  # type: ignore[no-untyped-def]
    """Softmax of nodes start … stop into rows [C + 2, ≥ stop − start]; the last class has logit 0.

    The two rows after the last class hold the largest logit and the total.
    """
    top, size = len(rows) - 2, stop - start
    last, total = top - 1, top + 1
    for j in range(size):
        rows[last, j] = rows[top, j] = rows[total, j] = 0
    for c in range(last):
        for j in range(size):
            rows[c, j] = bias[c]
        for k in range(len(coef)):
            for j in range(size):
                rows[c, j] += coef[k] * logits[k, c, start + j]
        for j in range(size):
            rows[top, j] = max(rows[top, j], rows[c, j])
            # 0 for finite logits, else NaN, which comparisons and powers of two would lose.
            rows[total, j] += np.float32(0) * rows[c, j]
    for c in range(last + 1):
        for j in range(size):
            rows[c, j] = _exp(rows[c, j] - rows[top, j])
            rows[total, j] += rows[c, j]
    for c in range(last + 1):
        for j in range(size):
            rows[c, j] /= rows[total, j]


@numba.njit(**INLINE)
def _exp(x):  # type: ignore[no-untyped-def]
    """exp(x) for x <= 0 to a few units in the last place, without a call: 2ⁿ times a polynomial.

    Constants from Cephes' expf. Below the smallest normal float it stays there instead of at 0.
    """
    x = max(x, np.float32(-87))
    n = np.floor(x * np.float32(1.44269504) + np.float32(0.5))
    r = x - n * np.float32(0.693359375) + n * np.float32(2.12194440e-4)
    p = np.float32(1.9875691500e-4)
    p = p * r + np.float32(1.3981999507e-3)
    p = p * r + np.float32(8.3334519073e-3)
    p = p * r + np.float32(4.1665795894e-2)
    p = p * r + np.float32(1.6666665459e-1)
    p = p * r + np.float32(5.0000001201e-1)
    power = (np.int32(n) + np.int32(127)) << np.int32(23)
    return (p * r * r + r + np.float32(1)) * np.int32(power).view(np.float32)


@numba.njit(**INLINE)
def _add_four(flat, weights, i, partial):  # type: ignore[no-untyped-def]
    for c in range(partial.shape[0]):
        w0, w1 = weights[i, c], weights[i + 1, c]
        w2, w3 = weights[i + 2, c], weights[i + 3, c]
        for j in range(partial.shape[1]):
            partial[c, j] += (
                w0 * flat[i, j] + w1 * flat[i + 1, j] + w2 * flat[i + 2, j] + w3 * flat[i + 3, j]
            )


@numba.njit(**FAST)
def _hop_dots(part, stack, directions, cuts, dots):  # type: ignore[no-untyped-def]
    start, stop, width = cuts[part], cuts[part + 1], stack.shape[2]
    products = np.zeros((stack.shape[1], width), np.float32)
    for block in range(start, stop, _BLOCK):
        end = min(stop, block + _BLOCK)
        fours = block + (end - block) // 4 * 4
        for i in range(block, fours, 4):
            _add_four_products(stack, directions, i, products)
        for k in range(products.shape[0]):
            for i in range(fours, end):
                for d in range(width):
                    products[k, d] += directions[i, d] * stack[i, k, d]
            for d in range(width):
                dots[part, k] += products[k, d]
                products[k, d] = 0


@numba.njit(**INLINE)
def _add_four_products(stack, directions, i, products):  # type: ignore[no-untyped-def]
    for k in range(products.shape[0]):
        for d in range(products.shape[1]):
            products[k, d] += (
                directions[i, d] * stack[i, k, d]
                + directions[i + 1, d] * stack[i + 1, k, d]
                + directions[i + 2, d] * stack[i + 2, k, d]
                + directions[i + 3, d] * stack[i + 3, k, d]
            )


@numba.njit(**FAST)
def _gram(part, stack, mean, block, cuts, form):  # type: ignore[no-untyped-def]
    start, stop = cuts[part], cuts[part + 1]
    num_hops, width = stack.shape[1], stack.shape[2]
    apart = np.empty((num_hops, block * width), np.float32)
    for first in range(start, stop, block):
        size = min(stop, first + block) - first
        for i in range(size):
            for k in range(num_hops):
                for d in range(width):
                    apart[k, i * width + d] = stack[first + i, k, d] - mean[k, d]
        for k in range(num_hops):
            for other in range(k + 1):
                dot = np.float32(0)
                for j in range(size * width):
                    dot += apart[k, j] * apart[other, j]
                form[part, k, other] += dot
                if other < k:
                    form[part, other, k] += dot


@numba.njit(**FAST)
def _between_form(sums, mass, mean, min_share, form):  # type: ignore[no-untyped-def]
    num_classes, num_hops, width = sums.shape
    floor = 0.0
    for c in range(num_classes):
        floor += min_share * mass[c]
    for c in range(num_classes):
        if mass[c] > floor:
            for k in range(num_hops):
                for other in range(k + 1):
                    dot = 0.0
                    for d in range(width):
                        dot += (sums[c, k, d] - mass[c] * mean[k, d]) * (
                            sums[c, other, d] - mass[c] * mean[other, d]
                        )
                    form[k, other] += dot / mass[c]
    for k in range(num_hops):
        for other in range(k):
            form[other, k] = form[k, other]
