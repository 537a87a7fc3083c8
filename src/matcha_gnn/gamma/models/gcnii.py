"""GCNII (Chen et al., ICML 2020): an α in every layer, with a ReLU between."""

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from matcha_gnn.errors import as_number, as_whole, require_number
from matcha_gnn.gamma.models.alpha import alpha_of, starting_alpha
from matcha_gnn.gamma.models.encoder import LinearEncoder
from matcha_gnn.gamma.models.linear import LayeredBackbone
from matcha_gnn.graphs.memory import Graph
from matcha_gnn.kernels import one_hop
from matcha_gnn.typing import Repr


class Start(NamedTuple):
    """What no α decides: h_0 and P h_0, both [N, D]."""

    h0: Repr
    spread: Repr


class GCNII(LinearEncoder, LayeredBackbone):
    """h_0 = ReLU(X W + b); h_l = ReLU(s (1 − β_l) + β_l s Θ_l), s = (1 − α_l) P h_{l−1} + α_l h_0.

    β_l = log(θ/l + 1), Z = h_L, and a linear head. Each α_l is adapted; it acts before a ReLU, so
    Z is not linear in anything that could be cached but h_0 and P h_0, and a round costs L − 1
    sparse products forth and back. The α_l are constants in training.

    Args:
        in_channels: features F.
        out_channels: classes C, at least 2.
        hidden_channels: width D of every layer.
        K: layers L, at least 1.
        alpha: where every α_l starts; 0.2 is what its authors take for Cora with many labels.
        theta: the number in β_l, λ in the original.
        domain: what the α_l may be in adaptation: "free"; "clamped" to [0, 1]; or "sigmoid", the
            logistic function of an unbounded γ.
        dropout: rate on what enters each layer, and the head.

    Shapes:
        x [N, F], edge_index [2, E] → logits [N, C]; gamma [L]

    Example:
        >>> model = GCNII(in_channels=8, out_channels=3)
        >>> model(torch.ones(5, 8), torch.tensor([[0, 1], [1, 0]])).shape, len(model.gamma)
        (torch.Size([5, 3]), 4)
    """

    trains_gamma = False

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        hidden_channels: int = 32,
        K: int = 4,  # noqa: N803 (every backbone's name for its depth)
        alpha: float = 0.2,
        theta: float = 0.5,
        domain: str = "free",
        dropout: float = 0.5,
    ) -> None:
        super().__init__(in_channels, out_channels, hidden_channels, dropout, head_bias=True)
        self.K = layers = as_whole("K", K, least=1)
        width = self.hidden_channels
        self.theta = as_number("theta", theta)
        require_number("theta", self.theta, above=0)
        self.alpha, self.domain = as_number("alpha", alpha), domain
        self.weight = nn.Parameter(torch.empty(layers, width, width))
        self.gamma = nn.Parameter(starting_alpha(self.alpha, domain, layers))
        self.reset_parameters()

    def node_features(self, graph: Graph) -> Tensor:
        """Logits of nodes that have no neighbours, [N, C]."""
        (z,) = self.layers(self.accept(graph.x), lambda h: h)
        logits: Tensor = self.head(z)
        return logits

    def layers(self, x: Tensor, hop: Callable[[Tensor], Tensor]) -> list[Repr]:
        """Z itself: an α acts before the ReLU of its layer."""
        return [self._through(self._start(x, hop), hop)]

    @torch.no_grad()
    def constants(self, graph: Graph) -> Start:
        """h_0 and P h_0."""
        return self._start(self.accept(graph.x), partial(one_hop, graph.adjacency))

    def representation(self, graph: Graph, constants: Start | None = None) -> Repr:
        """Z with gradients to every parameter, or to γ alone from `constants`, [N, D]."""
        hop = partial(one_hop, graph.adjacency)
        if constants is None:
            constants = self._start(self.accept(graph.x), hop)
        return self._through(constants, hop)

    def _start(self, x: Tensor, product: Callable[[Tensor], Tensor]) -> Start:
        h0 = F.relu(self.enter(x))
        return Start(h0, product(self.drop(h0)))

    def _through(self, start: Start, product: Callable[[Tensor], Tensor]) -> Repr:
        h, spread = start
        for layer, (alpha, weight) in enumerate(
            zip(alpha_of(self.gamma, self.domain), self.weight, strict=True)
        ):
            spread = spread if layer == 0 else product(self.drop(h))
            beta = math.log(self.theta / (layer + 1) + 1)
            mixed = (1 - alpha) * spread + alpha * start.h0
            h = F.relu(torch.addmm(mixed, mixed, weight, beta=1 - beta, alpha=beta))
        return self.drop(h)

    def reset_parameters(self) -> None:
        """Draw fresh parameters from torch's global generator; Glorot's law in every layer."""
        self.linear.reset_parameters()
        self.head.reset_parameters()
        for weight in self.weight:
            nn.init.xavier_uniform_(weight)
        with torch.no_grad():
            self.gamma.copy_(starting_alpha(self.alpha, self.domain, len(self.gamma)))
