"""The same kernels as loops that read each node's hops once, compiled by numba for the CPU.

Every core takes one range of nodes, block by block: softmax for all nodes of a block side by side,
as vector instructions want it, then the sums, four nodes at a time, so that weights and sums are
loaded once for four rows of hops. A block is summed in float32, then added up in float64, in an
order that does not depend on timing. The parallel part is a thin loop over ranges: numba compiles
that several times faster than one parallel kernel.
"""

from typing import Any

import numba
import numpy as np
import torch
from torch import Tensor

from matcha_gnn.typing import ClassSums, Coefficients, FloatArray, HopForm, HopStack, Probs, Repr

_BLOCK = 512
# Sums may be reordered, but what is not a number must stay so: the loop stops at it.
_FAST: Any = {"fastmath": {"reassoc", "contract", "nsz"}, "error_model": "numpy", "cache": True}


class Classifier:
    """Twin of `reference.Classifier` for float32 on the CPU."""

    def __init__(
        self, stack: HopStack, logits: Tensor, bias: Tensor, node_sums: FloatArray
    ) -> None:
        self.flat = stack.numpy().reshape(len(stack), -1)
        self.logits, self.bias, self.node_sums = logits.numpy(), bias.numpy(), node_sums

    def __call__(self, coef: Coefficients) -> tuple[Probs, ClassSums, FloatArray]:
        """Predictions, class sums and mass, in one read."""
        num_nodes, num_hops, num_classes = len(self.flat), len(coef), len(self.bias) + 1
        threads = _num_threads()
        probs = np.empty((num_nodes, num_classes), np.float32)
        sums = np.zeros((threads, num_classes, num_hops, self.node_sums.shape[1]))
        mass = np.zeros((threads, num_classes))
        weights = np.array(coef.tolist(), np.float32)
        _classify(self.flat, self.logits, weights, self.bias, self.node_sums, probs, sums, mass)
        return torch.from_numpy(probs), sums[0], mass[0]


def mix(stack: HopStack, coef: Coefficients) -> Repr:
    """Twin of `reference.mix` for float32 on the CPU."""
    z = np.zeros((len(stack), stack.shape[2]), np.float32)
    _mix(stack.numpy(), coef.float().numpy(), _num_threads(), z)
    return torch.from_numpy(z)


def class_sums(stack: HopStack, weights: Tensor) -> ClassSums:
    """Twin of `reference.class_sums` for float32 on the CPU."""
    flat, rows = stack.numpy().reshape(len(stack), -1), weights.contiguous().numpy()
    sums = np.zeros((_num_threads(), rows.shape[1], flat.shape[1]))
    _class_sums(flat, rows, sums)
    return np.asarray(sums.sum(0).reshape(-1, *stack.shape[1:]))


def between_form(
    class_sums: ClassSums, mass: FloatArray, mean: FloatArray, min_share: float
) -> HopForm:
    """Twin of `functional.between_form`, whose numpy calls are a tenth of a small graph's round."""
    form: HopForm = _between_form(class_sums, mass, mean, min_share * mass.sum())
    return form


def _num_threads() -> int:
    return min(numba.get_num_threads(), torch.get_num_threads())


@numba.njit(parallel=True, error_model="numpy", cache=True)
def _classify(flat, logits, coef, bias, node_sums, probs, sums, mass):  # type: ignore[no-untyped-def]
    threads, classes = mass.shape
    rows = sums.reshape(threads, classes, -1)
    for t in numba.prange(threads):
        start, stop = t * flat.shape[0] // threads, (t + 1) * flat.shape[0] // threads
        _classify_range(flat, logits, coef, bias, probs, start, stop, rows[t, :-1], mass[t])
    _close(sums, mass, node_sums)


@numba.njit(parallel=True, error_model="numpy", cache=True)
def _mix(stack, coef, threads, z):  # type: ignore[no-untyped-def]
    for t in numba.prange(threads):
        start, stop = t * stack.shape[0] // threads, (t + 1) * stack.shape[0] // threads
        _mix_range(stack, coef, start, stop, z)


@numba.njit(parallel=True, error_model="numpy", cache=True)
def _class_sums(flat, weights, sums):  # type: ignore[no-untyped-def]
    threads = sums.shape[0]
    for t in numba.prange(threads):
        start, stop = t * flat.shape[0] // threads, (t + 1) * flat.shape[0] // threads
        _class_sums_range(flat, weights, start, stop, sums[t])


@numba.njit(cache=True)
def _close(sums, mass, node_sums):  # type: ignore[no-untyped-def]
    """Add the threads' parts into the first, and fill in the last class."""
    last = sums.shape[1] - 1
    for t in range(1, sums.shape[0]):
        mass[0] += mass[t]
        sums[0] += sums[t]
    sums[0, last] = node_sums
    for c in range(last):
        sums[0, last] -= sums[0, c]


@numba.njit(**_FAST)
def _classify_range(  # type: ignore[no-untyped-def]
    flat, logits, coef, bias, probs, start, stop, sums, mass
):
    rows = np.empty((probs.shape[1], _BLOCK), np.float32)
    for block in range(start, stop, _BLOCK):
        end = min(stop, block + _BLOCK)
        _softmax_block(logits, coef, bias, block, end, rows)
        _keep_block(rows, block, end, probs, mass)
        _class_sums_range(flat, probs, block, end, sums)


@numba.njit(**_FAST)
def _mix_range(stack, coef, start, stop, z):  # type: ignore[no-untyped-def]
    for i in range(start, stop):
        for k in range(coef.shape[0]):
            for d in range(z.shape[1]):
                z[i, d] += coef[k] * stack[i, k, d]


@numba.njit(**_FAST)
def _class_sums_range(flat, weights, start, stop, sums):  # type: ignore[no-untyped-def]
    partial = np.zeros(sums.shape, np.float32)
    for block in range(start, stop, _BLOCK):
        end = min(stop, block + _BLOCK)
        fours = block + (end - block) // 4 * 4
        for i in range(block, fours, 4):
            _add_four(flat, weights, i, partial)
        for i in range(fours, end):
            _add_one(flat[i], weights[i], partial)
        _flush(partial, sums)


@numba.njit(**_FAST)
def _softmax_block(logits, coef, bias, start, stop, rows):  # type: ignore[no-untyped-def]
    """Softmax of nodes start … stop into rows [C, ≥ stop − start]; the last class has logit 0."""
    last, size = len(rows) - 1, stop - start
    top, total = np.zeros(size, np.float32), np.zeros(size, np.float32)
    rows[last] = 0
    for c in range(last):
        for j in range(size):
            rows[c, j] = bias[c]
        for k in range(len(coef)):
            for j in range(size):
                rows[c, j] += coef[k] * logits[k, c, start + j]
        for j in range(size):
            top[j] = max(top[j], rows[c, j])
            # 0 for finite logits, else NaN, which comparisons and powers of two would lose.
            total[j] += np.float32(0) * rows[c, j]
    for c in range(last + 1):
        for j in range(size):
            rows[c, j] = _exp(rows[c, j] - top[j])
            total[j] += rows[c, j]
    for c in range(last + 1):
        for j in range(size):
            rows[c, j] /= total[j]


@numba.njit(inline="always", cache=True)
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


@numba.njit(**_FAST)
def _keep_block(rows, start, stop, probs, mass):  # type: ignore[no-untyped-def]
    for c in range(len(rows)):
        part = np.float32(0)
        for j in range(stop - start):
            probs[start + j, c] = rows[c, j]
            part += rows[c, j]
        mass[c] += part


@numba.njit(**_FAST)
def _add_four(flat, weights, i, partial):  # type: ignore[no-untyped-def]
    for c in range(partial.shape[0]):
        w0, w1 = weights[i, c], weights[i + 1, c]
        w2, w3 = weights[i + 2, c], weights[i + 3, c]
        for j in range(partial.shape[1]):
            partial[c, j] += (
                w0 * flat[i, j] + w1 * flat[i + 1, j] + w2 * flat[i + 2, j] + w3 * flat[i + 3, j]
            )


@numba.njit(**_FAST)
def _add_one(hops, weights, partial):  # type: ignore[no-untyped-def]
    for c in range(partial.shape[0]):
        for j in range(partial.shape[1]):
            partial[c, j] += weights[c] * hops[j]


@numba.njit(**_FAST)
def _flush(partial, sums):  # type: ignore[no-untyped-def]
    for c in range(partial.shape[0]):
        for j in range(partial.shape[1]):
            sums[c, j] += partial[c, j]
            partial[c, j] = 0


@numba.njit(**_FAST)
def _between_form(sums, mass, mean, floor):  # type: ignore[no-untyped-def]
    num_classes, num_hops, width = sums.shape
    form, apart = np.zeros((num_hops, num_hops)), np.empty((num_hops, width))
    for c in range(num_classes):
        if mass[c] > floor:
            for k in range(num_hops):
                for d in range(width):
                    apart[k, d] = sums[c, k, d] - mass[c] * mean[k, d]
            for k in range(num_hops):
                for other in range(num_hops):
                    dot = 0.0
                    for d in range(width):
                        dot += apart[k, d] * apart[other, d]
                    form[k, other] += dot / mass[c]
    return form
