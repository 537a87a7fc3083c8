"""A linear layer that meets the features first, after dropout."""

import inspect
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from matcha_gnn.errors import InvalidArgumentError, as_number, as_whole, require_flag
from matcha_gnn.gamma.kernels.dropout import masked_dropout
from matcha_gnn.gamma.models.base import TrainableBackbone
from matcha_gnn.gamma.models.products import product_apart


class LinearEncoder(TrainableBackbone):
    """A backbone whose features meet one linear layer first, after dropout.

    A subclass keeps each argument of its constructor as an attribute of the same name. `bias` is
    that of the first layer.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        hidden_channels: int,
        dropout: float,
        *,
        bias: bool = True,
        head_bias: bool = False,
    ) -> None:
        super().__init__()
        self.in_channels = as_whole("in_channels", in_channels, least=1)
        self.hidden_channels = as_whole("hidden_channels", hidden_channels, least=1)
        self.out_channels = as_whole("out_channels", out_channels, least=2)
        require_flag("head_bias", head_bias)
        self.dropout = as_number("dropout", dropout, "a rate in [0, 1)", least=0, most=1)
        if self.dropout == 1:
            raise InvalidArgumentError("dropout", dropout, "a rate in [0, 1)")
        self.linear = nn.Linear(self.in_channels, self.hidden_channels, bias)
        self.head = nn.Linear(self.hidden_channels, self.out_channels, head_bias)
        self._dropped: Tensor | None = None

    @property
    def head_bias(self) -> bool:
        """Whether the head has a bias."""
        return self.head.bias is not None

    def config(self) -> dict[str, Any]:
        """Arguments that build this architecture again."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def enter(self, x: Tensor) -> Tensor:
        """The first layer on features [N, F] with dropout: [N, D]."""
        weight, bias = self.linear.weight, self.linear.bias
        if not (self.training and self.dropout > 0):
            return self._enter_plainly(x)
        if x.layout != torch.strided:
            return _sparse_linear(_sparse_dropout(x, self.dropout), self.linear)
        if x.requires_grad:
            return F.linear(F.dropout(x, self.dropout), weight, bias)
        # The buffer is out of reach until its gradient is taken: a second forward pass before
        # that needs one of its own.
        buffer, self._dropped = self._dropped, None
        if buffer is not None and (buffer.shape, buffer.dtype) != (x.shape, x.dtype):
            buffer = None
        dropped = masked_dropout(x, self.dropout, out=buffer)
        product = F.linear(dropped, weight / (1 - self.dropout), bias)
        if product.requires_grad:
            product.register_hook(  # type: ignore[no-untyped-call]
                lambda _: setattr(self, "_dropped", dropped)
            )
        return product

    def _enter_plainly(self, x: Tensor) -> Tensor:
        differentiated = torch.is_grad_enabled() and self.linear.weight.requires_grad
        if not differentiated and (product := product_apart(x, self.linear.weight)) is not None:
            return product if self.linear.bias is None else product + self.linear.bias
        if x.layout != torch.strided:
            return _sparse_linear(x, self.linear)
        if self.linear.bias is None or not differentiated:
            entered: Tensor = self.linear(x)
            return entered
        # From a Wᵀ that is stored by rows torch takes the weight's gradient as Xᵀ G, which two
        # cores finish in a quarter less time than Gᵀ X.
        return torch.addmm(self.linear.bias, x, self.linear.weight.T.contiguous())

    @torch.no_grad()
    def add_intercept(self, intercept: Tensor) -> None:
        """Add numbers [C] to the bias of the head, in place."""
        bias = intercept if self.head.bias is None else self.head.bias + intercept
        self.head.bias = nn.Parameter(bias.to(self.head.weight), requires_grad=False)

    def drop(self, h: Tensor) -> Tensor:
        """Dropout on a hidden layer; nothing in evaluation."""
        return F.dropout(h, self.dropout, self.training)

    def train(self, mode: bool = True) -> Self:
        """Switch mode; leaving training gives the buffer of dropped features back."""
        if not mode:
            self._dropped = None
        return super().train(mode)


def _sparse_linear(x: Tensor, layer: nn.Linear) -> Tensor:
    product: Tensor = torch.sparse.mm(x, layer.weight.T)
    return product if layer.bias is None else product + layer.bias


def _sparse_dropout(x: Tensor, rate: float) -> Tensor:
    x = x.to_sparse_csr()
    values = F.dropout(x.values(), rate)
    return torch.sparse_csr_tensor(
        x.crow_indices(), x.col_indices(), values, x.shape, check_invariants=False
    )
