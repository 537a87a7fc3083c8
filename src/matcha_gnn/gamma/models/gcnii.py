"""GCNII (Chen et al., ICML 2020): an α in every layer, with a ReLU between."""

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from matcha_gnn.errors import as_number, as_whole, require_number
from matcha_gnn.gamma.kernels.edge_weights import hop
from matcha_gnn.gamma.models.base import TrainableBackbone, graph_of
from matcha_gnn.gamma.models.encoder import FirstLayer, head_of
from matcha_gnn.graphs.memory import Graph
from matcha_gnn.typing import Repr


class Start(NamedTuple):
    """What no α decides: h_0 and P h_0, both [N, D]."""

    h0: Repr
    spread: Repr


class GCNII(TrainableBackbone):
    """h_0 = ReLU(X W + b); h_l = ReLU(s (1 − β_l) + β_l s Θ_l), s = (1 − α_l) P h_{l−1} + α_l h_0.

    β_l = log(θ/l + 1), Z = h_L, and a linear head. γ are the α_l. Each acts before a ReLU, so
    Z is not linear in anything that could be cached but h_0 and P h_0, and a round costs L − 1
    sparse products forth and back. The α_l are constants in training, and free in adaptation.

    Args:
        in_channels: features F.
        out_channels: classes C, at least 2.
        hidden_channels: width D of every layer.
        K: layers L, at least 1.
        alpha: where every α_l starts; 0.2 is what its authors take for Cora with many labels.
        theta: the number in β_l, λ in the original.
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
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        self.in_channels, self.out_channels = in_channels, out_channels
        self.hidden_channels, self.dropout = hidden_channels, dropout
        self.K = as_whole("K", K, least=1)
        self.theta, self.alpha = as_number("theta", theta), as_number("alpha", alpha)
        require_number("theta", self.theta, above=0)
        self.linear = FirstLayer(in_channels, hidden_channels, dropout)
        self.head = head_of(hidden_channels, out_channels, bias=True)
        self.weight = nn.Parameter(torch.empty(self.K, hidden_channels, hidden_channels))
        self.gamma = nn.Parameter(torch.full((self.K,), self.alpha))
        self.reset_parameters()

    def forward(
        self, x: Any, edge_index: Any = None, edge_weight: Any = None, **rest: Any
    ) -> Tensor:
        """The formula; `representation` is the same, with a sum less in a layer."""
        graph = graph_of(x, edge_index, edge_weight)
        h = h0 = F.relu(self.linear(self.accept(graph.x)))
        for layer, (alpha, weight) in enumerate(zip(self.gamma, self.weight, strict=True)):
            s = (1 - alpha) * hop(graph, self.drop(h)) + alpha * h0
            h = F.relu((1 - self.beta(layer)) * s + self.beta(layer) * (s @ weight))
        logits: Tensor = self.head(self.drop(h))
        return logits

    def beta(self, layer: int) -> float:
        """β of a layer, which are counted from 0 here."""
        return math.log(self.theta / (layer + 1) + 1)

    def drop(self, h: Tensor) -> Tensor:
        """Dropout on a hidden layer; nothing in evaluation."""
        return F.dropout(h, self.dropout, self.training)

    @torch.no_grad()
    def constants(self, graph: Graph) -> Start:
        """h_0 and P h_0."""
        return self._start(graph)

    def representation(self, graph: Graph, constants: Start | None = None) -> Repr:
        """Z with gradients to every parameter, or to γ alone from `constants`, [N, D]."""
        h0, spread = constants or self._start(graph)
        h = h0
        for layer, (alpha, weight) in enumerate(zip(self.gamma, self.weight, strict=True)):
            spread = hop(graph, self.drop(h)) if layer else spread
            mixed, beta = (1 - alpha) * spread + alpha * h0, self.beta(layer)
            h = F.relu(torch.addmm(mixed, mixed, weight, beta=1 - beta, alpha=beta))
        return self.drop(h)

    def _start(self, graph: Graph) -> Start:
        h0 = F.relu(self.linear(self.accept(graph.x)))
        return Start(h0, hop(graph, self.drop(h0)))

    def reset_parameters(self) -> None:
        """Draw fresh parameters from torch's global generator; Glorot's law in every layer."""
        self.linear.reset_parameters()
        self.head.reset_parameters()
        for weight in self.weight:
            nn.init.xavier_uniform_(weight)
        nn.init.constant_(self.gamma, self.alpha)
