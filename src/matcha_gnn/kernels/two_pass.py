"""A round in two passes over the stack, through Z, for many classes.

Whole class sums take C·(K+1)·D multiplications for a node. The losses only need B c, with B the
form of σ²_inter = cᵀ B c, and that takes about 3·C·D on Z: the sums a_c = Σ_i Y_ic z_i in the first
pass, and in the second (B c)_k = Σ_i ⟨Σ_c Y_ic (a_c / n_c − m), H_k[i]⟩ with m the mean of Z.

Blocks of nodes stay in the cache between the steps.
"""

from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor

from matcha_gnn.kernels.devices import device_of
from matcha_gnn.kernels.softmax import class_softmax
from matcha_gnn.typing import FloatArray, HopStack, HopWeights, Probs, Repr

Mix = Callable[[HopStack, HopWeights], Repr]


def classify(
    stack: HopStack, hop_weights: HopWeights, head: Callable[[Tensor], Tensor], mix: Mix
) -> tuple[Probs, FloatArray, FloatArray]:
    """First pass: softmax of the head on Z [N, C], Σ_i Y_ic z_i [C, D] and mass [C].

    Args:
        stack: [N, K+1, D].
        hop_weights: [K+1].
        head: logits [n, C] of representations [n, D].
        mix: the kernel.
    """
    probs, sums, mass = stack.new_empty(0), _no_sums(stack), _no_sums(stack)
    for rows in blocks(stack):
        z = mix(stack[rows], hop_weights)
        logits = head(z)
        if rows.start == 0:
            probs = logits.new_empty(len(stack), logits.shape[1])
        probs[rows] = class_softmax(logits)
        sums = sums + (probs[rows].T @ z).double()
        mass = mass + probs[rows].sum(0).double()
    return probs, _host(sums), _host(mass)


def mixed_sums(stack: HopStack, hop_weights: HopWeights, probs: Probs, mix: Mix) -> FloatArray:
    """Σ_i Y_ic z_i in float64, [C, D], for predictions that are known."""
    sums = _no_sums(stack)
    for rows in blocks(stack):
        z = mix(stack[rows], hop_weights)
        sums = sums + (probs[rows].T.to(z.dtype) @ z).double()
    return _host(sums)


def hop_slopes(
    stack: HopStack,
    probs: Probs,
    directions: FloatArray,
    hop_dots: Callable[[HopStack, Repr], FloatArray],
) -> FloatArray:
    """Second pass: Σ_i ⟨Σ_c Y_ic directions[c], H_k[i]⟩ in float64, [K+1]."""
    slopes = np.zeros(stack.shape[1])
    along = torch.from_numpy(directions).to(probs)
    for rows in blocks(stack):
        slopes += hop_dots(stack[rows], probs[rows] @ along)
    return slopes


def blocks(stack: HopStack, floats: int | None = None) -> Iterator[slice]:
    """Ranges of nodes whose hops make a block, of `floats` numbers if given."""
    _, num_hops, width = stack.shape
    size = max(1, (floats or device_of(stack).block_floats) // (num_hops * width))
    for start in range(0, len(stack), size):
        yield slice(start, min(start + size, len(stack)))


def _no_sums(stack: HopStack) -> Tensor:
    return torch.zeros((), dtype=torch.float64, device=stack.device)


def _host(sums: Tensor) -> FloatArray:
    return np.asarray(sums.cpu())
