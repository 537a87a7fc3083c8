"""GTrans' edit of the features: Adam on δ [N, F], in blocks of rows that stay in cache."""

import abc
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.optim.adam import adam

from matcha_gnn.errors import IncompatibleError
from matcha_gnn.gamma.models import FilterBackbone
from matcha_gnn.gamma.models.encoder import NormedEncoder
from matcha_gnn.typing import Repr

ADAM_EPSILON = 1e-8
BLOCK_ENTRIES = 1 << 19
"""Features are edited in blocks of rows of this size, in cache from gradient to product."""
MAX_DENSE_BYTES = 8 << 30
"""Largest size of the dense copies of sparse features; larger ones are not edited."""


class Adam:
    """Adam's two moments for numbers [N, F], in blocks of rows: twice the memory of the numbers.

    Args:
        like: what is edited, [N, F].
        lr: step size.
    """

    def __init__(self, like: Tensor, lr: float) -> None:
        self.lr, self.steps = lr, 0
        size = max(1, BLOCK_ENTRIES // like.shape[1])
        moments = (torch.split(_zeros_like(like), size) for _ in range(2))
        self.moments = list(zip(*moments, strict=True))
        ends = np.cumsum([0, *(len(mean) for mean, _ in self.moments)]).tolist()
        self.rows = [slice(a, b) for a, b in zip(ends, ends[1:], strict=False)]

    def move(self, block: int, values: Tensor, gradient: Tensor) -> None:
        """Take a block of the values one step down, in place."""
        # The function under `torch.optim.Adam`: it works on the buffers given, in one pass.
        mean, square = self.moments[block]
        steps = torch.full((), float(self.steps), device=values.device)
        rates: dict[str, Any] = {"lr": self.lr, "beta1": 0.9, "beta2": 0.999, "eps": ADAM_EPSILON}
        off: dict[str, Any] = {"amsgrad": False, "weight_decay": 0.0, "maximize": False}
        adam([values], [gradient], [mean], [square], [], [steps], fused=True, **rates, **off)


class Features(abc.ABC):
    """H_0 of edited features, for encoders that work on rows."""

    h: Repr
    """As edited so far, detached, [N, D]."""

    @abc.abstractmethod
    def step(self, slope: Tensor) -> None:
        """One step on δ down the gradient that has this slope in H_0, [N, D]."""


class LinearFeatures(Features):
    """For encoders that begin with one linear layer: its output is kept instead of δ.

    The rest of the encoder depends only on the layer's output U, and a step adds Δ Wᵀ to it. Δ and
    its gradient exist for a block of rows at a time, and x, dense or sparse, is read once.
    """

    def __init__(self, model: NormedEncoder, x: Tensor, lr: float) -> None:
        self.model, self.weight = model, model.linear.weight.detach()
        self.weight_t = self.weight.T.contiguous()
        self.entered = model.before_norm(x)
        require_room(x, 2)
        self.adam = Adam(x, lr)
        rows = max(block.stop - block.start for block in self.adam.rows)
        self._scratch = self.entered.new_empty(2, rows, x.shape[1])
        self.h = self._encode(self.entered)

    def step(self, slope: Tensor) -> None:
        """One step on δ."""
        with torch.enable_grad():
            leaf = self.entered.requires_grad_()
            (inner,) = torch.autograd.grad(self._encode(leaf), leaf, slope)
        entered = self.entered = leaf.detach()
        for block, rows in enumerate(self.adam.rows):
            gradient, change = self._scratch[:, : rows.stop - rows.start]
            torch.mm(inner[rows], self.weight, out=gradient)
            self.adam.move(block, change.zero_(), gradient)
            entered[rows].addmm_(change, self.weight_t)
        self.adam.steps += 1
        self.h = self._encode(entered)

    def _encode(self, entered: Tensor) -> Repr:
        return self.model.after_norm(self.model.norm(entered))


class EncodedFeatures(Features):
    """For any other encoder of rows: x + δ is kept, and encoded block by block, once in a step."""

    def __init__(self, model: FilterBackbone, x: Tensor, lr: float) -> None:
        self.model, self.adam = model, Adam(x, lr)
        edited = dense_copy(x, 3)
        self.blocks = [edited[rows].requires_grad_() for rows in self.adam.rows]
        with torch.enable_grad():
            self.encoded = [model.encode(values) for values in self.blocks]
        self.h = torch.cat(self.encoded).detach()

    def step(self, slope: Tensor) -> None:
        """One step on δ."""
        for block, rows in enumerate(self.adam.rows):
            values = self.blocks[block]
            (gradient,) = torch.autograd.grad(self.encoded[block], values, slope[rows])
            self.adam.move(block, values.detach(), gradient)
            with torch.enable_grad():
                self.encoded[block] = self.model.encode(values)
        self.adam.steps += 1
        self.h = torch.cat(self.encoded).detach()


def features_of(model: FilterBackbone, x: Tensor, lr: float) -> Features:
    """The features of a filter, ready to be edited."""
    if isinstance(model, NormedEncoder) and type(model).before_norm is NormedEncoder.before_norm:
        return LinearFeatures(model, x, lr)
    return EncodedFeatures(model, x, lr)


def dense_copy(x: Tensor, copies: int) -> Tensor:
    """Dense features to be edited, [N, F]; `copies` is the number of dense copies in all."""
    require_room(x, copies)
    edited = _zeros_like(x)
    return edited.copy_(x if x.layout == torch.strided else x.to_dense())


def require_room(x: Tensor, copies: int) -> None:
    """Raise IncompatibleError for sparse features that are too large as dense ones."""
    needed = copies * x.shape[0] * x.shape[1] * x.element_size()
    if x.layout != torch.strided and needed > MAX_DENSE_BYTES:
        raise IncompatibleError(
            f"GTrans needs dense features to edit them, {needed / 1e9:.0f} GB for this graph; "
            'use edit="edges"'
        )


def _zeros_like(x: Tensor) -> Tensor:
    """Dense zeros in the shape of x."""
    if not x.is_cpu:
        return torch.zeros(x.shape, dtype=x.dtype, device=x.device)
    # NumPy requests huge pages, torch does not: the first write of N F numbers is 4 times faster.
    kind = np.float64 if x.dtype is torch.float64 else np.float32
    return torch.from_numpy(np.zeros(x.shape, kind))
