"""One product of a graph's features with a weight, kept while several models need it.

Evidence, the source model and the model moved back all start from X Wᵀ with the same W; on a graph
with many features this product is most of an inference.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor


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
            self.product = x.detach() @ self.weight.T
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
