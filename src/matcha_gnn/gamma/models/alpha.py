"""What a teleport probability α may be while it is adapted: the paper does not say."""

import math

import torch
from torch import Tensor

from matcha_gnn.errors import InvalidArgumentError

DOMAINS = ("free", "clamped", "sigmoid")


def starting_alpha(alpha: float, domain: str, count: int) -> Tensor:
    """The γ at which every α has its starting value, [count]."""
    if domain not in DOMAINS:
        raise InvalidArgumentError("domain", repr(domain), ", ".join(DOMAINS))
    inside = 0 < alpha < 1 if domain == "sigmoid" else 0 <= alpha <= 1
    if not inside and not (domain == "free" and math.isfinite(alpha)):
        interval = {"sigmoid": "(0, 1)", "clamped": "[0, 1]"}.get(domain)
        allowed = f"a number in {interval} for {domain!r}" if interval else "a finite number"
        raise InvalidArgumentError("alpha", alpha, allowed)
    value = math.log(alpha / (1 - alpha)) if domain == "sigmoid" else alpha
    return torch.full((count,), float(value))


def alpha_of(gamma: Tensor, domain: str) -> Tensor:
    """α(γ), differentiable: γ itself, γ cut to [0, 1], or its logistic function.

    Cut off, α does not move with γ any more, and the gradient is zero: a γ that has left [0, 1]
    stays where it is.
    """
    if domain == "sigmoid":
        return torch.sigmoid(gamma)
    return gamma.clamp(0, 1) if domain == "clamped" else gamma


def alpha_and_slope(gamma: float, domain: str) -> tuple[float, float]:
    """α(γ) and dα/dγ of one number."""
    if domain == "sigmoid":
        alpha = torch.special.expit(torch.tensor(gamma, dtype=torch.float64)).item()
        return alpha, alpha * (1 - alpha)
    if domain == "clamped":
        return min(max(gamma, 0.0), 1.0), float(0 <= gamma <= 1)
    return gamma, 1.0
