"""JKNet (Xu et al., ICML 2018): a weighted sum of the layers of a GCN."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from matcha_gnn.errors import as_whole
from matcha_gnn.gamma.models.encoder import LinearEncoder
from matcha_gnn.gamma.models.linear import LayeredBackbone, LinearBackbone
from matcha_gnn.graphs.memory import Graph
from matcha_gnn.kernels import one_hop
from matcha_gnn.typing import HopStack, Repr


class JKNet(LinearEncoder, LinearBackbone, LayeredBackbone):
    """h_l = ReLU(P h_{l−1} W_l + b_l) for l = 1 … L, Z = Σ_l γ_l h_l, and a linear head.

    The layers do not depend on γ: they are cached as hops are, and adaptation needs their sums
    alone. PIC does not change when γ is scaled, so that two layers leave one free number.

    The original joins layers by concatenation, maximum or an LSTM; the weighted average is the
    paper's. Its starting weights are not printed: 1/L here, and trained with the rest.

    Args:
        in_channels: features F.
        out_channels: classes C, at least 2.
        hidden_channels: width D of every layer.
        K: layers L, at least 1.
        dropout: rate on what enters each layer.

    Shapes:
        x [N, F], edge_index [2, E] → logits [N, C]; gamma [L]

    Example:
        >>> model = JKNet(in_channels=8, out_channels=3)
        >>> model(torch.ones(5, 8), torch.tensor([[0, 1], [1, 0]])).shape, model.gamma.tolist()
        (torch.Size([5, 3]), [0.5, 0.5])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        hidden_channels: int = 32,
        K: int = 2,  # noqa: N803 (every backbone's name for its depth)
        dropout: float = 0.5,
    ) -> None:
        super().__init__(
            in_channels, out_channels, hidden_channels, dropout, bias=False, head_bias=True
        )
        self.K = layers = as_whole("K", K, least=1)
        self.num_hops, width = layers - 1, self.hidden_channels
        self.later = nn.ModuleList(nn.Linear(width, width, False) for _ in range(layers - 1))
        self.bias = nn.Parameter(torch.zeros(layers, width))
        self.gamma = nn.Parameter(torch.full((layers,), 1 / layers))

    def node_features(self, graph: Graph) -> Tensor:
        """Logits of nodes that have no neighbours, [N, C]."""
        z = self.mixed(self.layers(self.accept(graph.x), lambda h: h))
        logits: Tensor = self.head(z)
        return logits

    def stack(self, graph: Graph) -> HopStack:
        """h_1 … h_L of a checked graph, [N, L, D]."""
        return torch.stack(self._layers_of(graph), 1)

    def representation(self, graph: Graph, constants: Any = None) -> Repr:
        """Z with gradients to every parameter, [N, D]."""
        return self.mixed(self._layers_of(graph))

    def _layers_of(self, graph: Graph) -> list[Repr]:
        return self.layers(self.accept(graph.x), partial(one_hop, graph.adjacency))

    def layers(self, x: Tensor, hop: Callable[[Tensor], Tensor]) -> list[Repr]:
        """h_1 … h_L."""
        layers = [F.relu(hop(self.enter(x)) + self.bias[0])]
        for linear, bias in zip(self.later, self.bias[1:], strict=True):
            layers.append(F.relu(hop(linear(self.drop(layers[-1]))) + bias))
        return layers

    def reset_parameters(self) -> None:
        """Draw fresh parameters from torch's global generator; Glorot's law in every layer."""
        for linear in (self.linear, *self.later):
            nn.init.xavier_uniform_(linear.weight)
        self.head.reset_parameters()
        with torch.no_grad():
            self.bias.zero_()
            self.gamma.fill_(1 / len(self.gamma))
