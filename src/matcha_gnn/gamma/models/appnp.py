"""APPNP (Gasteiger et al., ICLR 2019): one number α decides the weights of all hops."""

import torch
from torch import Tensor, nn
from typing_extensions import override

from matcha_gnn.errors import as_number, as_whole
from matcha_gnn.gamma.models.alpha import alpha_and_slope, alpha_of, starting_alpha
from matcha_gnn.gamma.models.gprgnn import NormedEncoder
from matcha_gnn.typing import HopWeights


class APPNP(NormedEncoder):
    """Linear → batch norm → ReLU → K steps h ← (1−α) P h + α h_0 → linear head without bias.

    The steps equal Σ_k c_k P^k h_0 with c_k = α(1−α)^k and c_K = (1−α)^K, so that α is adapted
    on the cached hops of a GPRGNN. The layout is that of the paper's GPRGNN, as its appendix
    says; α is a constant in training and moves in adaptation alone.

    On [0, 1] no weight is negative: α can make less of neighbours, but not turn them against a
    node, which a heterophilous graph may ask for. A free α above 1 gives alternating signs.

    Args:
        in_channels: features F.
        out_channels: classes C, at least 2.
        hidden_channels: width D.
        K: steps.
        alpha: teleport probability.
        domain: what α may be in adaptation: "free"; "clamped" to [0, 1]; or "sigmoid", the
            logistic function of an unbounded γ.
        dropout: rate on the input, on the hidden layer, and before propagation.
        relu: False for the paper's text.
        head_bias: whether the head has a bias; the published one has none.

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
        domain: str = "free",
        dropout: float = 0.5,
        relu: bool = True,
        head_bias: bool = False,
    ) -> None:
        super().__init__(in_channels, out_channels, hidden_channels, dropout, relu, head_bias)
        self.K = self.num_hops = as_whole("K", K, least=0)
        self.alpha, self.domain = as_number("alpha", alpha), domain
        self.gamma = nn.Parameter(starting_alpha(self.alpha, domain, 1))

    def hop_weights(self, gamma: Tensor) -> HopWeights:
        """c(α(γ)), [K+1]; differentiable in γ."""
        alpha = alpha_of(gamma, self.domain)
        depth = torch.arange(self.num_hops, device=gamma.device)
        return torch.cat([alpha * (1 - alpha) ** depth, (1 - alpha) ** self.num_hops])

    def gamma_gradient(self, gamma: Tensor, hop_weight_gradient: Tensor) -> Tensor:
        """The chain rule through c(α(γ)), [1]."""
        # On the host, in float64: autograd over these few numbers takes longer than a round.
        alpha, slope = alpha_and_slope(float(gamma), self.domain)
        keep, last = 1 - alpha, self.num_hops
        upward = hop_weight_gradient.tolist()
        total = -last * keep ** max(last - 1, 0) * upward[last]
        for k, g in enumerate(upward[:last]):
            total += (keep**k - k * alpha * keep ** max(k - 1, 0)) * g
        return torch.full_like(gamma, slope * total)

    @override
    def starting_gamma(self) -> Tensor:
        return starting_alpha(self.alpha, self.domain, 1)
