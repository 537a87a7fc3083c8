"""GPRGNN (Chien et al., ICLR 2021): hops mixed by free weights, laid out as in the paper's runs."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from typing_extensions import override

from matcha_gnn.errors import as_number, as_whole
from matcha_gnn.gamma.models.base import TrainableBackbone, graph_of
from matcha_gnn.gamma.models.encoder import FirstLayer, folded, folds, head_of
from matcha_gnn.gamma.models.linear import FilterBackbone
from matcha_gnn.graphs.memory import Graph
from matcha_gnn.kernels import one_hop
from matcha_gnn.typing import HopWeights, Repr


class GPRGNN(FilterBackbone, TrainableBackbone):
    """H_0 = ReLU(BatchNorm(X Wᵀ + b)), Z = Σ_k γ_k P^k H_0, logits = Z W_headᵀ.

    Dropout acts on X, on H_0, and once more before propagation, as in the published runs. The
    paper's text has no ReLU; its runs have one.

    Args:
        in_channels: features F.
        out_channels: classes C, at least 2.
        hidden_channels: width D.
        K: hops.
        alpha: γ starts at α(1−α)^k, with the rest on hop K.
        dropout: rate at all three places.

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
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        self.in_channels, self.out_channels = in_channels, out_channels
        self.hidden_channels, self.dropout = hidden_channels, dropout
        self.K = self.num_hops = as_whole("K", K, least=0)
        self.alpha = as_number("alpha", alpha)
        self.linear = FirstLayer(in_channels, hidden_channels, dropout)
        self.head = head_of(hidden_channels, out_channels, bias=False)
        self.norm = nn.BatchNorm1d(hidden_channels)
        self.gamma = nn.Parameter(self.starting_gamma())

    def forward(
        self, x: Any, edge_index: Any = None, edge_weight: Any = None, **rest: Any
    ) -> Tensor:
        """The formula, hop by hop; `representation` is the same and faster."""
        graph = graph_of(x, edge_index, edge_weight)
        h, gamma = self.encode(self.accept(graph.x)), self.hop_weights(self.gamma)
        z = gamma[0] * h
        for weight in gamma[1:]:
            h = one_hop(graph.adjacency, h)
            z = z + weight * h
        logits: Tensor = self.head(z)
        return logits

    def encode(self, x: Tensor) -> Repr:
        """H_0 from features [N, F]: [N, D]; without gradients in one product, see `folded`."""
        if folds(self.linear, self.norm, x):
            return self.after_norm(folded(self.linear, self.norm, x))
        return self.after_norm(self.norm(self.linear(x)))

    def after_norm(self, h: Tensor) -> Repr:
        """From the batch norm to H_0, [N, D]."""
        h = F.relu(h, inplace=not h.requires_grad)
        for _ in range(2):
            h = F.dropout(h, self.dropout, self.training)
        return h

    @override
    def node_logits(self, graph: Graph) -> Tensor:
        h0 = self.after_norm(self.norm(self.linear(self.accept(graph.x))))
        return F.linear(h0, self.head.weight)

    def starting_gamma(self) -> HopWeights:
        """γ before training, [K+1]."""
        gamma = self.alpha * (1 - self.alpha) ** torch.arange(self.K + 1, dtype=torch.float32)
        gamma[-1] = (1 - self.alpha) ** self.K
        return gamma.to(torch.get_default_dtype())

    def reset_parameters(self) -> None:
        """Draw fresh parameters from torch's global generator."""
        for layer in (self.linear, self.norm, self.head):
            layer.reset_parameters()
        with torch.no_grad():
            self.gamma.copy_(self.starting_gamma())
