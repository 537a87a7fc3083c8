"""Tuning an encoder on nodes that are read in blocks: only [N, C−1] is in memory."""

from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from matcha_gnn.errors import IncompatibleError
from matcha_gnn.gamma.methods.base import View
from matcha_gnn.gamma.methods.tuning import FilterTuner, Point, Values
from matcha_gnn.graphs.memory import LocalGraph
from matcha_gnn.typing import HopStack, Repr

Encode: TypeAlias = Callable[[Values, LocalGraph], Repr]
"""H_0 of a block's nodes, [n, D], from the trained values."""


class StreamedTuner(FilterTuner):
    """As `FilterTuner`, but the encoder is run block by block, and again for its gradient.

    Args:
        view: the source model and the target.
        encode: see `Encode`; it reads none of the head's values.
    """

    def __init__(self, view: View, encode: Encode) -> None:
        super().__init__(view, self._no_whole)
        self.graph, self.encode_block = view.graph, encode

    def at(self, values: Values) -> Point:
        """Encode and apply the head, block by block."""
        weight, bias = self.relative_head(values)
        narrow: Tensor = _Narrow.apply(  # type: ignore[no-untyped-call]
            self, weight, list(values), *values.values()
        )
        return Point(values, narrow, weight, bias)

    def stack(self, point: Point) -> HopStack:
        """Refused: the tuned hops would be [N, K+1, D]."""
        return self._no_whole(point.values)

    def _no_whole(self, values: Values) -> Tensor:
        raise IncompatibleError("features: 'base' is not supported with GraphStore")


class _Narrow(torch.autograd.Function):
    """H_0 Wᵀ without H_0."""

    @staticmethod
    def forward(
        ctx: Any, tuner: StreamedTuner, weight: Tensor, names: list[str], *leaves: Tensor
    ) -> Tensor:
        ctx.tuner, ctx.weight, ctx.values = tuner, weight, dict(zip(names, leaves, strict=True))
        narrow = [
            tuner.encode_block(ctx.values, block) @ weight.T for _, block in tuner.graph.blocks()
        ]
        return torch.cat(narrow)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        leaves = {name: v.detach().requires_grad_() for name, v in ctx.values.items()}
        sums = [torch.zeros_like(leaf, dtype=torch.float64) for leaf in leaves.values()]
        for rows, block in ctx.tuner.graph.blocks():
            with torch.enable_grad():
                narrow = ctx.tuner.encode_block(leaves, block) @ ctx.weight.T
            slopes = torch.autograd.grad(narrow, list(leaves.values()), gradients[0][rows])
            for total, slope in zip(sums, slopes, strict=True):
                total += slope
        slopes_of = (s.to(leaf) for s, leaf in zip(sums, leaves.values(), strict=True))
        return None, None, None, *slopes_of
