"""Entropy minimisation, as a loss for γ (the paper's ablation)."""

from torch import Tensor

from matcha_gnn import functional
from matcha_gnn.gamma.losses.base import LogitLoss
from matcha_gnn.typing import Probs


class Entropy(LogitLoss):
    """Mean entropy of the model's softmax.

    Example:
        >>> import torch
        >>> Entropy()(torch.zeros(1, 1), torch.zeros(1, 2), torch.zeros(1, 2))
        tensor(0.6931)
    """

    name = "entropy"

    def node_terms(self, logits: Tensor, probs: Probs) -> tuple[Tensor, Tensor]:
        """Entropy of each node and its derivative."""
        return functional.entropy_terms(logits)
