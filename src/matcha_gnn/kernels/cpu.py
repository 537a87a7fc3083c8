"""The same kernels as loops that read each node's hops once, compiled by numba for the CPU.

Every core takes one range of nodes, four at a time, so that weights and sums are loaded once for
four rows of hops. A few hundred nodes are summed in float32, then added up in float64, in an
order that does not depend on timing. The parallel part is a thin loop over ranges: numba compiles
that several times faster than one parallel kernel.
"""

import numba
import numpy as np
import torch
from torch import Tensor

from matcha_gnn.typing import ClassSums, Coefficients, FloatArray, HopStack, Probs, Repr

_BLOCK = 512


def classify(
    stack: HopStack, logits: Tensor, coef: Coefficients, bias: Tensor, node_sums: FloatArray
) -> tuple[Probs, ClassSums, FloatArray]:
    """Twin of `reference.classify` for float32 on the CPU."""
    flat = stack.numpy().reshape(len(stack), -1)
    num_classes, threads = len(bias) + 1, _num_threads()
    probs = np.empty((len(flat), num_classes), np.float32)
    sums = np.zeros((threads, num_classes, flat.shape[1]))
    mass = np.zeros((threads, num_classes))
    head = (logits.numpy(), coef.float().numpy(), bias.numpy())
    _classify(flat, *head, probs, sums, mass)
    _close(sums, mass, node_sums.reshape(-1))
    return torch.from_numpy(probs), sums[0].reshape(-1, *node_sums.shape), mass[0]


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


def _num_threads() -> int:
    return min(numba.get_num_threads(), torch.get_num_threads())


@numba.njit(parallel=True, cache=True)
def _classify(flat, logits, coef, bias, probs, sums, mass):  # type: ignore[no-untyped-def]
    threads = sums.shape[0]
    for t in numba.prange(threads):
        start, stop = t * flat.shape[0] // threads, (t + 1) * flat.shape[0] // threads
        _classify_range(flat, logits, coef, bias, probs, start, stop, sums[t, :-1], mass[t])


@numba.njit(parallel=True, cache=True)
def _mix(stack, coef, threads, z):  # type: ignore[no-untyped-def]
    for t in numba.prange(threads):
        start, stop = t * stack.shape[0] // threads, (t + 1) * stack.shape[0] // threads
        _mix_range(stack, coef, start, stop, z)


@numba.njit(parallel=True, cache=True)
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


@numba.njit(fastmath=True, cache=True)
def _classify_range(  # type: ignore[no-untyped-def]
    flat, logits, coef, bias, probs, start, stop, sums, mass
):
    for block in range(start, stop, _BLOCK):
        end = min(stop, block + _BLOCK)
        _softmax_block(logits, coef, bias, block, end, probs)
        _class_sums_range(flat, probs, block, end, sums)
        for i in range(block, end):
            for c in range(probs.shape[1]):
                mass[c] += probs[i, c]


@numba.njit(fastmath=True, cache=True)
def _mix_range(stack, coef, start, stop, z):  # type: ignore[no-untyped-def]
    for i in range(start, stop):
        for k in range(coef.shape[0]):
            for d in range(z.shape[1]):
                z[i, d] += coef[k] * stack[i, k, d]


@numba.njit(fastmath=True, cache=True)
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


@numba.njit(fastmath=True, cache=True)
def _softmax_block(logits, coef, bias, start, stop, probs):  # type: ignore[no-untyped-def]
    # Plain indices throughout: a view of each node's row would cost more than its softmax.
    last = probs.shape[1] - 1
    for i in range(start, stop):
        top = np.float32(0)
        for c in range(last):
            mixed = bias[c]
            for k in range(coef.shape[0]):
                mixed += coef[k] * logits[i, k, c]
            probs[i, c] = mixed
            top = max(top, mixed)
        total = np.exp(-top)
        probs[i, last] = total
        for c in range(last):
            probs[i, c] = np.exp(probs[i, c] - top)
            total += probs[i, c]
        for c in range(last + 1):
            probs[i, c] /= total


@numba.njit(fastmath=True, cache=True)
def _add_four(flat, weights, i, partial):  # type: ignore[no-untyped-def]
    for c in range(partial.shape[0]):
        w0, w1 = weights[i, c], weights[i + 1, c]
        w2, w3 = weights[i + 2, c], weights[i + 3, c]
        for j in range(partial.shape[1]):
            partial[c, j] += (
                w0 * flat[i, j] + w1 * flat[i + 1, j] + w2 * flat[i + 2, j] + w3 * flat[i + 3, j]
            )


@numba.njit(fastmath=True, cache=True)
def _add_one(hops, weights, partial):  # type: ignore[no-untyped-def]
    for c in range(partial.shape[0]):
        for j in range(partial.shape[1]):
            partial[c, j] += weights[c] * hops[j]


@numba.njit(fastmath=True, cache=True)
def _flush(partial, sums):  # type: ignore[no-untyped-def]
    for c in range(partial.shape[0]):
        for j in range(partial.shape[1]):
            sums[c, j] += partial[c, j]
            partial[c, j] = 0
