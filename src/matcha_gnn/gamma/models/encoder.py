"""How features become H_0: a linear layer with input dropout, and the published batch norm."""

import abc
from typing import Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from matcha_gnn.errors import (
    IncompatibleError,
    InvalidArgumentError,
    as_number,
    as_whole,
    require_flag,
)
from matcha_gnn.gamma.kernels.dropout import masked_dropout
from matcha_gnn.gamma.models.base import MovableBackbone, TrainableBackbone
from matcha_gnn.gamma.models.linear import NormedFilterBackbone
from matcha_gnn.gamma.models.products import dense_product, shared_product
from matcha_gnn.kernels.propagate import empty
from matcha_gnn.typing import Repr


class LinearEncoder(TrainableBackbone, MovableBackbone):
    """A backbone whose features meet one linear layer first, after dropout.

    Args:
        in_channels: features F.
        out_channels: classes C, at least 2.
        hidden_channels: width D.
        dropout: rate.
        bias: whether the first layer has one.
        head_bias: whether the head has one.
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
        width = as_whole("hidden_channels", hidden_channels, least=1)
        classes = as_whole("out_channels", out_channels, least=2)
        require_flag("head_bias", head_bias)
        self.dropout = as_number("dropout", dropout, "a rate in [0, 1)", least=0, most=1)
        if self.dropout == 1:
            raise InvalidArgumentError("dropout", dropout, "a rate in [0, 1)")
        self.linear = nn.Linear(self.in_channels, width, bias)
        self.head = nn.Linear(width, classes, head_bias)
        self._dropped: Tensor | None = None

    def enter(self, x: Tensor) -> Tensor:
        """The first layer on features [N, F] with dropout: [N, D]."""
        if not (self.training and self.dropout > 0):
            differentiated = torch.is_grad_enabled() and self.linear.weight.requires_grad
            entered = None if differentiated else shared_product(x, self.linear.weight)
            if entered is not None:
                return entered.clone() if self.linear.bias is None else entered + self.linear.bias
            of_kind = _dense_linear if x.layout == torch.strided else _sparse_linear
            return of_kind(x, self.linear)
        if x.layout != torch.strided:
            return _sparse_linear(_sparse_dropout(x, self.dropout), self.linear)
        if x.requires_grad:
            return F.linear(F.dropout(x, self.dropout), self.linear.weight, self.linear.bias)
        # The buffer is out of reach until its gradient is taken: a second forward pass before
        # that needs one of its own.
        buffer, self._dropped = self._dropped, None
        if buffer is not None and (buffer.shape, buffer.dtype) != (x.shape, x.dtype):
            buffer = None
        dropped = masked_dropout(x, self.dropout, out=buffer)
        product = F.linear(dropped, self.linear.weight / (1 - self.dropout), self.linear.bias)
        if product.requires_grad:
            product.register_hook(  # type: ignore[no-untyped-call]
                lambda _: setattr(self, "_dropped", dropped)
            )
        return product

    @torch.no_grad()
    def move(self, *, offset: Tensor | None = None, intercept: Tensor | None = None) -> None:
        """Change the biases of the first layer and of the head; see `MovableBackbone.move`."""
        if offset is not None:
            if not self.takes_offset:
                raise IncompatibleError(f"{self.name}: node features have no bias to be moved by")
            self.linear.bias.sub_(offset)
        if intercept is not None:
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


class NormedEncoder(LinearEncoder, NormedFilterBackbone):
    """Linear → batch norm → ReLU, with dropout at three places, as in the published runs.

    Args:
        in_channels: features F.
        out_channels: classes C, at least 2.
        hidden_channels: width D.
        dropout: rate on the input, on the hidden layer, and once more before propagation.
        relu: False for the paper's text, which has none.
        head_bias: whether the head has a bias; the published one has none.
    """

    takes_offset = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        hidden_channels: int,
        dropout: float,
        relu: bool,
        head_bias: bool,
    ) -> None:
        super().__init__(in_channels, out_channels, hidden_channels, dropout, head_bias=head_bias)
        require_flag("relu", relu)
        self.relu = relu
        self.norm = nn.BatchNorm1d(self.head.in_features)

    @abc.abstractmethod
    def starting_gamma(self) -> Tensor:
        """γ before training."""

    def reset_parameters(self) -> None:
        """Draw fresh parameters from torch's global generator."""
        self.linear.reset_parameters()
        self.norm.reset_parameters()
        self.head.reset_parameters()
        with torch.no_grad():
            self.gamma.copy_(self.starting_gamma())

    def encode(self, x: Tensor) -> Repr:
        """H_0 from features [N, F]: [N, D].

        Without gradients the batch norm of a model in evaluation is made part of the linear layer:
        one write of [N, D] instead of three.
        """
        differentiated = torch.is_grad_enabled() and (
            x.requires_grad or any(p.requires_grad for p in self.parameters())
        )
        if differentiated or not self._folds:
            return super().encode(x)
        entered = shared_product(x, self.linear.weight)
        if entered is None:
            h = _affine(x, *_folded(self.linear, self.norm))
        else:
            scale, shift = _scale_and_shift(self.linear, self.norm)
            h = torch.addcmul(shift, entered, scale, out=empty(entered.shape, entered))
        return h.relu_() if self.relu else h

    @property
    def _folds(self) -> bool:
        """Whether the encoder is one affine map before the ReLU; a subclass may add to it."""
        parts = ("enter", "before_norm", "after_norm")
        own = all(getattr(type(self), name) is getattr(NormedEncoder, name) for name in parts)
        evaluated = not (self.training or self.norm.training)
        known = type(self.norm) is nn.BatchNorm1d and self.norm.track_running_stats
        return own and evaluated and known

    def before_norm(self, x: Tensor) -> Tensor:
        """From features [N, F] to the batch norm: [N, D]."""
        return self.enter(x)

    def after_norm(self, h: Tensor) -> Repr:
        """From the batch norm to H_0: [N, D]."""
        return self.drop(self.drop(F.relu(h) if self.relu else h))


def _dense_linear(x: Tensor, layer: nn.Linear) -> Tensor:
    differentiated = layer.weight.requires_grad and torch.is_grad_enabled()
    if layer.bias is None or not differentiated:
        product: Tensor = layer(x)
        return product
    # From a Wᵀ that is stored by rows torch takes the weight's gradient as Xᵀ G, which two cores
    # finish in a quarter less time than Gᵀ X.
    return torch.addmm(layer.bias, x, layer.weight.T.contiguous())


def _folded(layer: nn.Linear, norm: nn.BatchNorm1d) -> tuple[Tensor, Tensor]:
    """Weight [D, F] and bias [D] of a linear layer with the batch norm after it."""
    scale, shift = _scale_and_shift(layer, norm)
    return (layer.weight * scale[:, None]).detach(), shift


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


def _affine(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """X Wᵀ + b without history."""
    if x.layout != torch.strided:
        product: Tensor = torch.sparse.mm(x, weight.T)
        return product.add_(bias)
    return dense_product(x, weight, bias)


def _sparse_linear(x: Tensor, layer: nn.Linear) -> Tensor:
    product: Tensor = torch.sparse.mm(x, layer.weight.T)
    return product if layer.bias is None else product + layer.bias


def _sparse_dropout(x: Tensor, rate: float) -> Tensor:
    x = x.to_sparse_csr()
    values = F.dropout(x.values(), rate)
    return torch.sparse_csr_tensor(
        x.crow_indices(), x.col_indices(), values, x.shape, check_invariants=False
    )
