"""GPRGNN (Chien et al., ICLR 2021): hops mixed by free weights, laid out as in the paper's runs."""

import abc
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from typing_extensions import override

from matcha_gnn.errors import InvalidArgumentError, as_number, as_whole, require_flag
from matcha_gnn.gamma.models.encoder import LinearEncoder
from matcha_gnn.gamma.models.linear import FilterBackbone
from matcha_gnn.gamma.models.products import dense_product, product_apart
from matcha_gnn.graphs.memory import Graph
from matcha_gnn.kernels.propagate import empty
from matcha_gnn.typing import HopWeights, Repr


class NormedEncoder(LinearEncoder, FilterBackbone):
    """H_0 = ReLU(BatchNorm(X Wᵀ + b)), Z = Σ_k c_k(γ) P^k H_0, logits = Z W_headᵀ.

    Dropout acts on X, on H_0, and once more before propagation, as in the published runs.
    """

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
        self.norm = nn.BatchNorm1d(self.hidden_channels)

    def before_norm(self, x: Tensor) -> Tensor:
        """From features [N, F] to the batch norm: [N, D]."""
        return self.enter(x)

    def after_norm(self, h: Tensor) -> Repr:
        """From the batch norm to H_0: [N, D]."""
        return self.drop(self.drop(F.relu(h) if self.relu else h))

    def encode(self, x: Tensor) -> Repr:
        """H_0 from features [N, F]: [N, D]; without gradients in one pass, see `folded`."""
        differentiated = torch.is_grad_enabled() and (
            x.requires_grad or any(p.requires_grad for p in self.parameters())
        )
        evaluated = not (self.training or self.norm.training)
        known = type(self.norm) is nn.BatchNorm1d and self.norm.track_running_stats
        as_here = self.has_published("enter", "before_norm", "after_norm")
        if evaluated and known and as_here and not differentiated:
            return folded(self, x)
        return self.after_norm(self.norm(self.before_norm(x)))

    @classmethod
    def has_published(cls, *parts: str) -> bool:
        """Whether these methods are those of this class, not of a subclass."""
        return all(getattr(cls, part) is getattr(NormedEncoder, part) for part in parts)

    @property
    def ends_in_norm(self) -> bool:
        """Whether, in evaluation, H_0 is what the batch norm gives."""
        return not self.relu and self.has_published("after_norm")

    def node_features(self, graph: Graph) -> Tensor:
        """What enters the batch norm, [N, D]."""
        return self.before_norm(self.accept(graph.x))

    def node_logits(self, own: Tensor) -> Tensor:
        """The head on H_0, [N, C]."""
        h0 = self.after_norm(self.norm(own.to(self.gamma)))
        return F.linear(h0, self.head.weight)

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


class GPRGNN(NormedEncoder):
    """H_0 = ReLU(BatchNorm(X Wᵀ + b)), Z = Σ_k γ_k P^k H_0, logits = Z W_headᵀ.

    Dropout acts on X, on H_0, and once more before propagation, as in the published runs. The
    paper's text has no ReLU: `relu=False`.

    Args:
        in_channels: features F.
        out_channels: classes C, at least 2.
        hidden_channels: width D.
        K: hops.
        alpha: the number in the starting values of γ.
        gamma_start: "ppr", α(1−α)^k with the rest on hop K; or K+1 numbers.
        dropout: rate at all three places.
        relu: False for the paper's text.
        head_bias: whether the head has a bias; the published one has none.

    Shapes:
        x [N, F], edge_index [2, E] → logits [N, C]

    Example:
        >>> model = GPRGNN(in_channels=8, out_channels=3, hidden_channels=4, K=2)
        >>> model(torch.ones(5, 8), torch.tensor([[0, 1], [1, 0]])).shape
        torch.Size([5, 3])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        hidden_channels: int = 32,
        K: int = 9,  # noqa: N803 (the field's name for it)
        alpha: float = 1.0,
        gamma_start: str | Sequence[float] = "ppr",
        dropout: float = 0.5,
        relu: bool = True,
        head_bias: bool = False,
    ) -> None:
        super().__init__(in_channels, out_channels, hidden_channels, dropout, relu, head_bias)
        self.K = self.num_hops = as_whole("K", K, least=0)
        self.alpha = as_number("alpha", alpha)
        start = starting_gamma(gamma_start, self.num_hops, self.alpha)
        self.gamma = nn.Parameter(start.to(torch.get_default_dtype()))
        self.gamma_start = gamma_start if isinstance(gamma_start, str) else self.gamma.tolist()

    @override
    def starting_gamma(self) -> Tensor:
        return starting_gamma(self.gamma_start, self.num_hops, self.alpha)


def starting_gamma(start: str | Sequence[float], num_hops: int, alpha: float) -> HopWeights:
    """The K+1 starting values of γ."""
    allowed = f"ppr, or K + 1 = {num_hops + 1} finite numbers"
    if isinstance(start, str):
        if start != "ppr":
            raise InvalidArgumentError("gamma_start", repr(start), allowed)
        gamma = alpha * (1 - alpha) ** torch.arange(num_hops + 1, dtype=torch.float32)
        gamma[-1] = (1 - alpha) ** num_hops
        return gamma
    try:
        # On the host whatever the default device is, so that the numbers can be checked.
        gamma = torch.as_tensor(start, dtype=torch.float32, device="cpu")
    except (TypeError, ValueError, RuntimeError) as error:
        got = f"a {type(start).__name__}"
        raise InvalidArgumentError("gamma_start", got, allowed) from error
    if gamma.shape != (num_hops + 1,) or not gamma.isfinite().all():
        raise InvalidArgumentError("gamma_start", gamma.tolist(), allowed)
    return gamma.detach().clone()


def folded(model: NormedEncoder, x: Tensor) -> Repr:
    """H_0 in evaluation without history: the batch norm is made part of the linear layer.

    One write of [N, D] instead of three.
    """
    layer, norm = model.linear, model.norm
    scale, shift = _scale_and_shift(layer, norm)
    product = product_apart(x, layer.weight)
    if product is not None:
        h = torch.addcmul(shift, product, scale, out=empty(product.shape, product))
        return h.relu_() if model.relu else h
    weight = (layer.weight * scale[:, None]).detach()
    if x.layout == torch.strided:
        h = dense_product(x, weight, shift)
    else:
        h = torch.sparse.mm(x, weight.T).add_(shift)
    return h.relu_() if model.relu else h


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
