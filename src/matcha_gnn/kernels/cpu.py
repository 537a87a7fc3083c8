"""The same kernels for float32 on the CPU, by torch's dense products: nothing to compile.

Sums over few nodes are taken in float32; these sums are added up in float64, in an order that does
not depend on timing. All of it runs on torch's threads: they spin while they wait, and would
compete with other threads for the cores.
"""

from functools import cached_property

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from matcha_gnn.kernels import reference
from matcha_gnn.kernels.propagate import empty
from matcha_gnn.kernels.two_pass import blocks
from matcha_gnn.typing import ClassSums, FloatArray, HopStack, HopWeights, Probs, Repr

SUMMED = 512
"""Nodes that are summed in float32."""
GROUP = 128
"""Such sums that are taken in one call."""
MIXED = 1 << 22
"""Numbers of hops that are mixed in one call: every node needs room for its bag."""


def mix(stack: HopStack, hop_weights: HopWeights) -> Repr:
    """See `reference.mix`: bags of K+1 rows, which torch sums at the speed of reading."""
    ranges = list(blocks(stack, MIXED))
    if len(ranges) == 1:
        return _mix(stack, hop_weights)
    z = empty((len(stack), stack.shape[2]), stack)
    for rows in ranges:
        z[rows] = _mix(stack[rows], hop_weights)
    return z


def _mix(stack: HopStack, hop_weights: HopWeights) -> Repr:
    nodes, num_hops, _ = stack.shape
    rows = torch.arange(nodes * num_hops, dtype=torch.int32).view(nodes, num_hops)
    weights = hop_weights.float().expand(nodes, num_hops)
    return embedding_bag(rows, stack.flatten(0, 1), mode="sum", per_sample_weights=weights)


def class_sums(stack: HopStack, weights: Tensor) -> ClassSums:
    """See `reference.class_sums`."""
    sums = _row_sums(stack.flatten(1), weights.float())
    return sums.view(-1, *stack.shape[1:]).numpy()


def _row_sums(flat: Tensor, weights: Tensor) -> Tensor:
    """Sums of rows [N, M] with weights [N, C], [C, M] in float64."""
    group = GROUP * SUMMED
    if len(flat) <= group:
        return _few_sums(flat, weights)
    sums = flat.new_zeros(weights.shape[1], flat.shape[1], dtype=torch.float64)
    for first in range(0, len(flat), group):
        sums += _few_sums(flat[first : first + group], weights[first : first + group])
    return sums


def _few_sums(flat: Tensor, weights: Tensor) -> Tensor:
    """The same in one call: in groups of equal size, and what is left over."""
    groups = max(1, -(-len(flat) // SUMMED))
    size = len(flat) // groups
    if left := len(flat) - groups * size:
        rest = weights[-left:].T @ flat[-left:]
        return _few_sums(flat[:-left], weights[:-left]).add_(rest)
    few = weights.view(groups, size, weights.shape[1]).mT
    products = torch.bmm(few, flat.view(groups, size, flat.shape[1]))
    return products.sum(0, dtype=torch.float64)


def _sums_by_class(flat: Tensor, weights: Tensor) -> Tensor:
    """Sums of rows [n, M] with weights that lie class by class [C, n], [C, M] in float64."""
    groups = len(flat) // SUMMED
    even = groups * SUMMED
    few = weights[:, :even].view(len(weights), groups, SUMMED).transpose(0, 1)
    products = torch.bmm(few, flat[:even].view(groups, SUMMED, flat.shape[1]))
    return products.sum(0, dtype=torch.float64).add_(weights[:, even:] @ flat[even:])


class Classifier(reference.Classifier):
    """See `reference.Classifier`; two classes, with the shortest rounds, in fewer calls.

    Reading the hops evicts everything else from the inner caches, so every call costs as much as
    a first one, while its work takes only a few microseconds.
    """

    class_sums = staticmethod(class_sums)

    @cached_property
    def _first_logits(self) -> Tensor:
        """[N, K+1]."""
        return self.logits[:, 0].T

    @cached_property
    def _flat(self) -> Tensor:
        """[N, (K+1)·D]."""
        return self.stack.flatten(1)

    def __call__(self, hop_weights: HopWeights) -> tuple[Probs, ClassSums, FloatArray]:
        """Predictions, class sums and mass, in one read."""
        if len(self.bias) > 1:
            return self._in_blocks(hop_weights)
        share = _first_share(self._first_logits, self.bias, hop_weights)
        sums = np.empty((2, *self.node_sums.shape))
        sums[0] = _row_sums(self._flat, share[:, None]).numpy().reshape(sums.shape[1:])
        np.subtract(self.node_sums, sums[0], out=sums[1])
        mass = share.sum(dtype=torch.float64).item()
        return _both_shares(share), sums, np.array([mass, len(share) - mass])

    def _in_blocks(self, hop_weights: HopWeights) -> tuple[Probs, ClassSums, FloatArray]:
        """The same for many classes: a block's predictions are summed while they are in cache."""
        logits, last = self._mixed(hop_weights), len(self.bias)
        probs = empty((len(self.stack), last + 1), logits)
        first = logits.new_zeros(last, self._flat.shape[1], dtype=torch.float64)
        mass = logits.new_zeros(last + 1, dtype=torch.float64)
        for rows in blocks(self.stack):
            shares = reference.class_shares(logits[:, rows])
            probs[rows] = reference.turned(shares)
            mass += shares.sum(1, dtype=torch.float64)
            first += _sums_by_class(self._flat[rows], shares[:-1])
        sums = np.empty((last + 1, *self.node_sums.shape))
        sums[:-1] = first.numpy().reshape(last, *self.node_sums.shape)
        np.subtract(self.node_sums, sums[:-1].sum(0), out=sums[-1])
        return probs, sums, mass.numpy()


def hop_predictions(logits: Tensor, bias: Tensor, hop_weights: HopWeights) -> Probs:
    """See `reference.hop_predictions`; of two classes the same bits as `Classifier`."""
    if len(bias) > 1:
        return reference.hop_predictions(logits, bias, hop_weights)
    return _both_shares(_first_share(logits[:, 0].T, bias, hop_weights))


def _first_share(logits: Tensor, bias: Tensor, hop_weights: HopWeights) -> Tensor:
    """Probability of the first of two classes, [N], from its hop logits [N, K+1]."""
    mixed = torch.addmv(bias, logits, hop_weights.to(logits))
    # A logit that is not finite must not become a finite prediction: 0 · ∞ = NaN.
    return mixed.sigmoid().add_(mixed, alpha=0)


def _both_shares(share: Tensor) -> Probs:
    """Of two classes, [N, 2], from that of the first."""
    probs = np.empty((len(share), 2), np.float32)
    probs[:, 0] = share.numpy()
    np.subtract(1, probs[:, 0], out=probs[:, 1])
    return torch.from_numpy(probs)


def hop_slopes(stack: HopStack, probs: Probs, directions: FloatArray) -> FloatArray:
    """See `two_pass.hop_slopes`: products of many blocks are added up in place."""
    along = torch.from_numpy(directions).float()
    products = torch.zeros_like(stack[next(blocks(stack), slice(0, 0))])
    here = torch.empty_like(products[:, 0])
    for rows in blocks(stack):
        size = rows.stop - rows.start
        torch.mm(probs[rows].float(), along, out=here[:size])
        products[:size].addcmul_(stack[rows], here[:size, None])
    ones = stack.new_ones(len(products), 1)
    return np.asarray(class_sums(products, ones)[0].sum(-1))
