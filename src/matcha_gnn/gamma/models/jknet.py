"""JKNet (Xu et al., ICML 2018): a weighted sum of the layers of a GCN."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from matcha_gnn.errors import as_whole
from matcha_gnn.gamma.kernels.edge_weights import hop
from matcha_gnn.gamma.models.base import TrainableBackbone, graph_of
from matcha_gnn.gamma.models.encoder import FirstLayer, head_of
from matcha_gnn.gamma.models.linear import LinearBackbone
from matcha_gnn.graphs.memory import Graph
from matcha_gnn.typing import HopStack, Repr


class JKNet(LinearBackbone, TrainableBackbone):
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
        super().__init__()
        self.in_channels, self.out_channels = in_channels, out_channels
        self.hidden_channels, self.dropout = width, rate = hidden_channels, dropout
        self.K = layers = as_whole("K", K, least=1)
        self.num_hops = layers - 1
        self.linear = FirstLayer(in_channels, width, rate, bias=False)
        self.head = head_of(width, out_channels, bias=True)
        self.later = nn.ModuleList(nn.Linear(width, width, False) for _ in range(layers - 1))
        self.bias = nn.Parameter(torch.zeros(layers, width))
        self.gamma = nn.Parameter(torch.full((layers,), 1 / layers))

    def forward(
        self, x: Any, edge_index: Any = None, edge_weight: Any = None, **rest: Any
    ) -> Tensor:
        """The formula; adaptation mixes layers that are kept, which is the same."""
        layers = self.layers(graph_of(x, edge_index, edge_weight))
        z = self.gamma[0] * layers[0]
        for gamma, h in zip(self.gamma[1:], layers[1:], strict=True):
            z = z + gamma * h
        logits: Tensor = self.head(z)
        return logits

    def layers(self, graph: Graph) -> list[Repr]:
        """h_1 … h_L, each [N, D]."""
        entering = self.linear(self.accept(graph.x))
        found = [F.relu(hop(graph, entering) + self.bias[0])]
        for linear, bias in zip(self.later, self.bias[1:], strict=True):
            dropped = F.dropout(found[-1], self.dropout, self.training)
            found.append(F.relu(hop(graph, linear(dropped)) + bias))
        return found

    def stack(self, graph: Graph) -> HopStack:
        """h_1 … h_L of a checked graph, [N, L, D]."""
        return torch.stack(self.layers(graph), 1)

    def reset_parameters(self) -> None:
        """Draw fresh parameters from torch's global generator; Glorot's law in every layer."""
        for linear in (self.linear, *self.later):
            nn.init.xavier_uniform_(linear.weight)
        self.head.reset_parameters()
        with torch.no_grad():
            self.bias.zero_()
            self.gamma.fill_(1 / len(self.gamma))
