"""GPRGNN (Chien et al., ICLR 2021): hops mixed by free weights, laid out as in the paper's runs."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from matcha_gnn.errors import InvalidArgumentError, as_number, as_whole
from matcha_gnn.gamma.models.encoder import NormedEncoder
from matcha_gnn.typing import HopWeights

GAMMA_STARTS = ("ppr", "nppr", "sgc", "random")


class GPRGNN(NormedEncoder):
    """Linear → batch norm → ReLU → Σ_k γ_k P^k → linear head without bias.

    Dropout acts on the input, on the hidden layer, and once more before propagation, as in the
    published runs. The paper's text has no ReLU: `relu=False`.

    Args:
        in_channels: features F.
        out_channels: classes C, at least 2.
        hidden_channels: width D.
        K: hops.
        alpha: the number in the starting values of γ.
        gamma_start: "ppr" α(1−α)^k with the rest on hop K; "nppr" α^k, absolute values summing
            to one; "sgc" all weight on hop int(α); "random" uniform, absolute values summing to
            one; or K+1 numbers.
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
        self.num_hops, self.alpha = as_whole("K", K, least=0), as_number("alpha", alpha)
        start = starting_gamma(gamma_start, self.num_hops, self.alpha)
        self.gamma = nn.Parameter(start.to(torch.get_default_dtype()))
        self.gamma_start = gamma_start if isinstance(gamma_start, str) else self.gamma.tolist()

    def starting_gamma(self) -> Tensor:
        """γ before training."""
        return starting_gamma(self.gamma_start, self.num_hops, self.alpha)

    def config(self) -> dict[str, Any]:
        """Arguments that build this architecture again."""
        return {
            "in_channels": self.in_channels,
            "out_channels": self.head.out_features,
            "hidden_channels": self.head.in_features,
            "K": self.num_hops,
            "alpha": self.alpha,
            "gamma_start": self.gamma_start,
            "dropout": self.dropout,
            "relu": self.relu,
            "head_bias": self.head.bias is not None,
        }


def starting_gamma(start: str | Sequence[float], num_hops: int, alpha: float) -> HopWeights:
    """The K+1 starting values of γ.

    Example:
        >>> starting_gamma("ppr", 2, 0.5)
        tensor([0.5000, 0.2500, 0.2500])
    """
    depth = torch.arange(num_hops + 1, dtype=torch.float32)
    if not isinstance(start, str):
        return _given_gamma(start, num_hops)
    if not math.isfinite(alpha):
        raise InvalidArgumentError("alpha", alpha, "a finite number")
    if start == "ppr":
        gamma = alpha * (1 - alpha) ** depth
        gamma[-1] = (1 - alpha) ** num_hops
        return gamma
    if start == "nppr":
        gamma = alpha**depth
        return gamma / gamma.abs().sum()
    if start == "sgc":
        if int(alpha) != alpha or not 0 <= alpha <= num_hops:
            raise InvalidArgumentError("alpha", alpha, f"a hop 0 to {num_hops} for 'sgc'")
        return (depth == alpha).float()
    if start == "random":
        bound = (3 / (num_hops + 1)) ** 0.5
        gamma = torch.empty(num_hops + 1).uniform_(-bound, bound)
        return gamma / gamma.abs().sum()
    allowed = f"{', '.join(GAMMA_STARTS)}, or {num_hops + 1} numbers"
    raise InvalidArgumentError("gamma_start", repr(start), allowed)


def _given_gamma(values: Sequence[float], num_hops: int) -> HopWeights:
    allowed = f"K + 1 = {num_hops + 1} finite numbers"
    try:
        # On the host whatever the default device is, so that the numbers can be checked.
        gamma = torch.as_tensor(values, dtype=torch.float32, device="cpu")
    except (TypeError, ValueError, RuntimeError) as error:
        got = f"a {type(values).__name__}"
        raise InvalidArgumentError("gamma_start", got, allowed) from error
    if gamma.shape != (num_hops + 1,) or not gamma.isfinite().all():
        raise InvalidArgumentError("gamma_start", gamma.tolist(), allowed)
    return gamma.detach().clone()
