"""The layer that meets the features first, and the parts that models have in common."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from typing_extensions import override

from matcha_gnn.errors import InvalidArgumentError, as_number, as_whole
from matcha_gnn.gamma.kernels.dropout import masked_dropout
from matcha_gnn.gamma.models.products import dense_product, product_apart
from matcha_gnn.kernels.propagate import empty


class FirstLayer(nn.Linear):
    """Dropout and a linear layer on the features, dense or sparse: [N, F] to [N, D]."""

    def __init__(
        self, in_channels: int, hidden_channels: int, dropout: float, bias: bool = True
    ) -> None:
        inputs = as_whole("in_channels", in_channels, least=1)
        super().__init__(inputs, as_whole("hidden_channels", hidden_channels, least=1), bias)
        self.dropout = dropout_rate(dropout)
        self._dropped: Tensor | None = None

    @override
    def forward(self, x: Tensor) -> Tensor:
        if not (self.training and self.dropout > 0):
            return self._in_evaluation(x)
        if x.layout != torch.strided:
            return self._sparse(_sparse_dropout(x, self.dropout))
        if x.requires_grad:
            return F.linear(F.dropout(x, self.dropout), self.weight, self.bias)
        # The buffer is out of reach until its gradient is taken: a second forward pass before
        # that needs one of its own.
        buffer, self._dropped = self._dropped, None
        if buffer is not None and (buffer.shape, buffer.dtype) != (x.shape, x.dtype):
            buffer = None
        dropped = masked_dropout(x, self.dropout, out=buffer)
        product = F.linear(dropped, self.weight / (1 - self.dropout), self.bias)
        if product.requires_grad:
            product.register_hook(  # type: ignore[no-untyped-call]
                lambda _: setattr(self, "_dropped", dropped)
            )
        return product

    def _in_evaluation(self, x: Tensor) -> Tensor:
        differentiated = torch.is_grad_enabled() and self.weight.requires_grad
        if not differentiated and (product := product_apart(x, self.weight)) is not None:
            return product if self.bias is None else product + self.bias
        if x.layout != torch.strided:
            return self._sparse(x)
        if self.bias is None or not differentiated:
            return super().forward(x)
        # From a Wᵀ that is stored by rows torch takes the weight's gradient as Xᵀ G, which two
        # cores finish in a quarter less time than Gᵀ X.
        return torch.addmm(self.bias, x, self.weight.T.contiguous())

    def _sparse(self, x: Tensor) -> Tensor:
        product: Tensor = torch.sparse.mm(x, self.weight.T)
        return product if self.bias is None else product + self.bias

    @override
    def train(self, mode: bool = True) -> "FirstLayer":
        if not mode:
            self._dropped = None
        return super().train(mode)


def dropout_rate(dropout: float) -> float:
    """A rate below 1, or an error that says so."""
    allowed = "a rate in [0, 1)"
    rate = as_number("dropout", dropout, allowed, least=0, most=1)
    if rate == 1:
        raise InvalidArgumentError("dropout", dropout, allowed)
    return rate


def head_of(hidden_channels: int, out_channels: int, bias: bool) -> nn.Linear:
    """The classifier on Z, for at least two classes."""
    return nn.Linear(hidden_channels, as_whole("out_channels", out_channels, least=2), bias)


def folds(layer: FirstLayer, norm: nn.Module, x: Tensor) -> bool:
    """Whether a layer and the batch norm behind it may be taken as one linear map of features."""
    if layer.training or norm.training or type(norm) is not nn.BatchNorm1d:
        return False
    parameters = (*layer.parameters(), *norm.parameters())
    differentiated = x.requires_grad or any(each.requires_grad for each in parameters)
    return bool(norm.track_running_stats) and not (torch.is_grad_enabled() and differentiated)


def folded(layer: FirstLayer, norm: nn.BatchNorm1d, x: Tensor) -> Tensor:
    """What a layer and the batch norm behind it make of features in evaluation, without history.

    One write of [N, D] instead of two.
    """
    scale, shift = _scale_and_shift(layer, norm)
    product = product_apart(x, layer.weight)
    if product is not None:
        return torch.addcmul(shift, product, scale, out=empty(product.shape, product))
    weight = (layer.weight * scale[:, None]).detach()
    if x.layout == torch.strided:
        return dense_product(x, weight, shift)
    made: Tensor = torch.sparse.mm(x, weight.T)
    return made.add_(shift)


def _scale_and_shift(layer: nn.Linear, norm: nn.BatchNorm1d) -> tuple[Tensor, Tensor]:
    """What X Wᵀ is multiplied by, and what is added, for bias and batch norm, [D] each."""
    mean, variance = norm.running_mean, norm.running_var
    assert mean is not None
    assert variance is not None
    scale = (variance + norm.eps).rsqrt()
    bias = -mean if layer.bias is None else layer.bias - mean
    if norm.affine:
        scale = scale * norm.weight
    shift = bias * scale + norm.bias if norm.affine else bias * scale
    return scale.detach(), shift.detach()


def _sparse_dropout(x: Tensor, rate: float) -> Tensor:
    x = x.to_sparse_csr()
    values = F.dropout(x.values(), rate)
    return torch.sparse_csr_tensor(
        x.crow_indices(), x.col_indices(), values, x.shape, check_invariants=False
    )
