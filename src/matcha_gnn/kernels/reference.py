"""Reference implementation of every kernel in plain torch; used where no faster one applies.

Sums over nodes are taken by blocks in the stack's precision, added up in float64, and moved to the
host.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from matcha_gnn.kernels.devices import HALF, device_of
from matcha_gnn.kernels.two_pass import blocks
from matcha_gnn.typing import ClassSums, FloatArray, HopForm, HopStack, HopWeights, Probs, Repr

BLOCK = 1 << 16
SHORT = 1 << 11
"""Products that are summed in float32."""
"""Hops may be stored in half precision; sums over them are taken in float32."""


def mix(stack: HopStack, hop_weights: HopWeights) -> Repr:
    """Z = Σ_k c_k H_k, [N, D]."""
    if stack.dtype not in HALF:
        return torch.einsum("nkd,k->nd", stack, hop_weights.to(stack.dtype))
    return torch.cat([mix(_wide(stack[rows]), hop_weights) for rows in _blocks(len(stack))])


def node_sums(stack: HopStack) -> FloatArray:
    """Σ_i H_k[i], [K+1, D]."""
    sums = torch.zeros(stack.shape[1:], dtype=torch.float64, device=stack.device)
    for rows in blocks(stack, _cached(stack)):
        sums += _wide(stack[rows]).sum(0)
    return np.asarray(sums.cpu())


def class_sums(stack: HopStack, weights: Tensor) -> ClassSums:
    """Σ_i weights[i, c] · H_k[i] in float64, [C, K+1, D]; weights is [N, C]."""
    flat = stack.flatten(1)
    sums = torch.zeros(weights.shape[1], flat.shape[1], dtype=torch.float64, device=stack.device)
    for rows in _blocks(stack.shape[0]):
        hops = _wide(flat[rows])
        sums += weights[rows].T.to(hops.dtype) @ hops
    return np.asarray(sums.view(-1, *stack.shape[1:]).cpu())


def hop_logits(stack: HopStack, weight: Tensor) -> Tensor:
    """Each hop's logits relative to the last class, H_k (W_c − W_C)ᵀ, [K+1, C−1, N]."""
    logits = weight.new_empty(stack.shape[1], len(weight) - 1, len(stack))
    for rows in _blocks(len(stack)):
        logits[..., rows] = (_wide(stack[rows]) @ (weight[:-1] - weight[-1]).T).permute(1, 2, 0)
    return logits


@dataclass(frozen=True, eq=False)
class Classifier:
    """A linear head on mixed hops: predictions, their class sums and mass, in one read.

    Softmax only sees differences of logits and probabilities sum to one, so the last class needs
    neither logits nor sums of its own.

    Attributes:
        stack: [N, K+1, D].
        logits: `hop_logits` of the stack, [K+1, C−1, N].
        bias: the head's, relative to the last class, [C−1].
        node_sums: Σ_i H_k[i], [K+1, D]; the sums of the last class are what the others leave.
    """

    stack: HopStack
    logits: Tensor
    bias: Tensor
    node_sums: FloatArray

    class_sums = staticmethod(class_sums)

    def __call__(self, hop_weights: HopWeights) -> tuple[Probs, ClassSums, FloatArray]:
        """Predictions [N, C], class sums [C, K+1, D] and mass [C] for hop weights [K+1]."""
        shares = class_shares(self._mixed(hop_weights))
        first = self.class_sums(self.stack, shares[:-1].T)
        sums = np.concatenate([first, (self.node_sums - first.sum(0))[None]])
        mass = np.asarray(shares.sum(1, dtype=torch.float64).cpu())
        return turned(shares), sums, mass

    def _mixed(self, hop_weights: HopWeights) -> Tensor:
        """Logits relative to the last class, class-major, [C−1, N]."""
        return mixed_logits(self.logits, self.bias, hop_weights)


def mixed_logits(logits: Tensor, bias: Tensor, hop_weights: HopWeights) -> Tensor:
    """From `hop_logits` [K+1, C−1, N], a bias [C−1] and hop weights [K+1]: [C−1, N]."""
    weights = hop_weights.to(logits.dtype)
    mixed = (weights @ logits.flatten(1)).view(logits.shape[1:])
    return mixed.add_(bias[:, None])


def hop_predictions(logits: Tensor, bias: Tensor, hop_weights: HopWeights) -> Probs:
    """The predictions of `Classifier` without its sums, from hop logits alone: [N, C]."""
    return turned(class_shares(mixed_logits(logits, bias, hop_weights)))


def class_shares(logits: Tensor) -> Tensor:
    """Softmax of logits relative to the last class, [C−1, N] to [C, N].

    Class-major: softmax is many times faster down the long side.

    Example:
        >>> class_shares(torch.zeros(1, 3))
        tensor([[0.5000, 0.5000, 0.5000],
                [0.5000, 0.5000, 0.5000]])
    """
    # A logit that is not finite must not become a finite prediction: 0 · ∞ = NaN.
    if len(logits) == 1:
        return torch.cat([logits, -logits]).sigmoid_().add_(logits, alpha=0)
    return torch.cat([logits, logits.sum(0, keepdim=True).mul_(0)]).softmax(0)


def turned(matrix: Tensor) -> Tensor:
    """The transpose of a matrix, contiguous and without history.

    On the CPU row by row of the longer side: torch copies single entries, several times slower.

    Example:
        >>> turned(torch.tensor([[1, 2, 3], [4, 5, 6]])).tolist()
        [[1, 4], [2, 5], [3, 6]]
    """
    if not matrix.is_cpu:
        return matrix.T.contiguous()
    given = matrix.detach().numpy()
    result = np.empty(given.shape[::-1], given.dtype)
    wide, tall = (given, result.T) if given.shape[0] <= given.shape[1] else (given.T, result)
    for row, place in zip(wide, tall, strict=True):
        place[:] = row
    return torch.from_numpy(result)


def hop_dots(stack: HopStack, directions: Repr) -> FloatArray:
    """Σ_i ⟨directions[i], H_k[i]⟩ in float64, [K+1]; directions is [N, D]."""
    dots = torch.zeros(stack.shape[1], dtype=torch.float64, device=stack.device)
    for rows in _blocks(len(stack)):
        hops = _wide(stack[rows])
        dots += torch.einsum("nkd,nd->k", hops, directions[rows].to(hops.dtype))
    return np.asarray(dots.cpu())


def gram(stack: HopStack, mean: FloatArray) -> HopForm:
    """S_kl = Σ_i ⟨H_k[i] − m_k, H_l[i] − m_l⟩ in float64, [K+1, K+1]; mean is [K+1, D]."""
    form = torch.zeros(stack.shape[1], stack.shape[1], dtype=torch.float64, device=stack.device)
    centre = torch.from_numpy(mean).to(_wide(stack[:0]))
    for rows in blocks(stack, _cached(stack)):
        form += _products(_wide(stack[rows]) - centre)
    return np.asarray(form.cpu())


def _products(hops: HopStack) -> Tensor:
    """Σ_i ⟨H_k[i], H_l[i]⟩, [K+1, K+1], from short sums: long ones lose digits in float32."""
    nodes, num_hops, width = hops.shape
    few = max(1, SHORT // width)
    even = nodes - nodes % few
    groups = hops[:even].view(-1, few, num_hops, width).transpose(1, 2).flatten(2)
    rest = hops[even:].transpose(0, 1).flatten(1)
    return torch.bmm(groups, groups.mT).sum(0, dtype=torch.float64) + rest @ rest.T


def _cached(stack: HopStack) -> int:
    """Numbers of a block that stays in the cache beside a copy of it."""
    return device_of(stack).block_floats // 2


def _wide(hops: Tensor) -> Tensor:
    return hops.float() if hops.dtype in HALF else hops


def _blocks(num_nodes: int) -> Iterator[slice]:
    for start in range(0, num_nodes, BLOCK):
        yield slice(start, start + BLOCK)
