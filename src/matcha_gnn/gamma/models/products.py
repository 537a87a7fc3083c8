"""The product of features and the first layer's weight."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor

from matcha_gnn.kernels.propagate import empty

_BLOCK = 1 << 19
"""Numbers of features (2 MB) that are multiplied at a time on the CPU: a tenth faster than all."""
_apart: ContextVar[bool] = ContextVar("apart", default=False)


def dense_product(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """X Wᵀ + b without history, [N, D], in memory that is fast to write to first."""
    product = empty((len(x), len(weight)), x)
    size = max(1, _BLOCK // x.shape[1]) if x.is_cpu else len(x)
    for start in range(0, len(x), size):
        rows = slice(start, start + size)
        torch.addmm(bias, x[rows].detach(), weight.T, out=product[rows])
    return product


@contextmanager
def bias_apart() -> Iterator[None]:
    """Take the product without its bias inside the block: probabilities are recorded that way."""
    token = _apart.set(True)
    try:
        yield
    finally:
        _apart.reset(token)


def product_apart(x: Tensor, weight: Tensor) -> Tensor | None:
    """X Wᵀ without history for dense features, [N, D]; None outside of `bias_apart`."""
    plain = x.layout == torch.strided and not (x.is_inference() or x.requires_grad)
    if not (plain and _apart.get()):
        return None
    weight = weight.detach()
    return dense_product(x, weight, weight.new_zeros(len(weight)))
