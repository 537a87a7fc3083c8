"""One product of a graph's features with a weight, kept while several models need it.

Evidence, the source model and the model moved back all start from X Wᵀ with the same W; on a graph
with many features this product is most of an inference.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor

from matcha_gnn.kernels.propagate import empty

_BLOCK = 1 << 19
"""Numbers of features (2 MB) that are multiplied at a time on the CPU: a tenth faster than all."""


def dense_product(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """X Wᵀ + b without history, [N, D], in memory that is fast to write to first."""
    found = empty((len(x), len(weight)), x)
    size = max(1, _BLOCK // x.shape[1]) if x.is_cpu else len(x)
    for start in range(0, len(x), size):
        rows = slice(start, start + size)
        torch.addmm(bias, x[rows].detach(), weight.T, out=found[rows])
    return found


class _Kept:
    """The last product, and what it was made from; holding both keeps their addresses theirs."""

    def __init__(self) -> None:
        self.x: Tensor | None = None
        self.version = 0
        self.weight = self.product = torch.empty(0)

    def of(self, x: Tensor, weight: Tensor) -> Tensor:
        same = self.x is x and self.version == x._version
        if not (same and torch.equal(self.weight, weight)):
            self.x, self.version, self.weight = x, x._version, weight.detach().clone()
            self.product = dense_product(x, self.weight, self.weight.new_zeros(len(weight)))
        return self.product


_kept: ContextVar[_Kept | None] = ContextVar("kept", default=None)


@contextmanager
def kept_product() -> Iterator[None]:
    """Keep the last product of `shared_product` inside the block."""
    token = _kept.set(_Kept())
    try:
        yield
    finally:
        _kept.reset(token)


def shared_product(x: Tensor, weight: Tensor) -> Tensor | None:
    """X Wᵀ without history, [N, D], to be read only; None outside of `kept_product`.

    Args:
        x: dense features, [N, F].
        weight: W, [D, F].

    Example:
        >>> x, weight = torch.ones(2, 3), torch.ones(1, 3)
        >>> with kept_product():
        ...     shared_product(x, weight) is shared_product(x, weight.clone())
        True
    """
    kept = _kept.get()
    plain = x.layout == torch.strided and not (x.is_inference() or x.requires_grad)
    return kept.of(x, weight) if kept and plain else None
