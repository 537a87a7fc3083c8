"""APPNP (Gasteiger et al., ICLR 2019): one number α decides the weights of all hops."""

from typing import Any

import torch
from torch import Tensor
from typing_extensions import override

from matcha_gnn.gamma.models.base import graph_of
from matcha_gnn.gamma.models.gprgnn import GPRGNN
from matcha_gnn.kernels import one_hop
from matcha_gnn.typing import HopWeights


class APPNP(GPRGNN):
    """Linear → batch norm → ReLU → K steps h ← (1−α) P h + α h_0 → linear head without bias.

    The steps equal Σ_k c_k P^k h_0 with c_k = α(1−α)^k and c_K = (1−α)^K, so that γ = α is adapted
    on the cached hops of a GPRGNN. The layout is that of the paper's GPRGNN, as its appendix
    says; α is a constant in training and moves in adaptation alone.

    For α in [0, 1] no weight is negative: less is made of neighbours, but they are not turned
    against a node, which a heterophilous graph may ask for. α is free, and above 1 signs alternate.

    Args:
        in_channels: features F.
        out_channels: classes C, at least 2.
        hidden_channels: width D.
        K: steps.
        alpha: teleport probability.
        dropout: rate on the input, on the hidden layer, and before propagation.

    Shapes:
        x [N, F], edge_index [2, E] → logits [N, C]; gamma [1]

    Example:
        >>> model = APPNP(in_channels=8, out_channels=3, K=2, alpha=0.5)
        >>> model.hop_weights(model.gamma).tolist()
        [0.5, 0.25, 0.25]
    """

    trains_gamma = False

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        hidden_channels: int = 32,
        K: int = 9,  # noqa: N803 (the field's name for it)
        alpha: float = 0.1,
        dropout: float = 0.5,
    ) -> None:
        super().__init__(in_channels, out_channels, hidden_channels, K, alpha, dropout)

    def forward(
        self, x: Any, edge_index: Any = None, edge_weight: Any = None, **rest: Any
    ) -> Tensor:
        """The steps of its paper; `representation` mixes hops instead, which is the same."""
        graph, alpha = graph_of(x, edge_index, edge_weight), self.gamma
        z = h0 = self.encode(self.accept(graph.x))
        for _ in range(self.K):
            z = (1 - alpha) * one_hop(graph.adjacency, z) + alpha * h0
        logits: Tensor = self.head(z)
        return logits

    def hop_weights(self, gamma: Tensor) -> HopWeights:
        """c(α), [K+1]; differentiable in γ = α."""
        depth = torch.arange(self.K, device=gamma.device)
        return torch.cat([gamma * (1 - gamma) ** depth, (1 - gamma) ** self.K])

    def gamma_gradient(self, gamma: Tensor, hop_weight_gradient: Tensor) -> Tensor:
        """The chain rule through c(α), [1]."""
        # On the host, in float64: autograd over these few numbers takes longer than a round.
        alpha, keep, last = float(gamma), 1 - float(gamma), self.num_hops
        upward = hop_weight_gradient.tolist()
        total = -last * keep ** max(last - 1, 0) * upward[last]
        for k, g in enumerate(upward[:last]):
            total += (keep**k - k * alpha * keep ** max(k - 1, 0)) * g
        return torch.full_like(gamma, total)

    @override
    def starting_gamma(self) -> Tensor:
        return torch.tensor([self.alpha])
