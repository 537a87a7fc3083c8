"""Cross entropy against the predicted labels, as a loss for γ (the paper's ablation)."""

from torch import Tensor

from matcha_gnn import functional
from matcha_gnn.gamma.losses.base import LogitLoss
from matcha_gnn.typing import Probs


class PseudoLabel(LogitLoss):
    """Mean cross entropy of the model's softmax against the base method's hard labels.

    Example:
        >>> import torch
        >>> PseudoLabel()(torch.zeros(1, 1), torch.zeros(1, 2), torch.tensor([[0.9, 0.1]]))
        tensor(0.6931)
    """

    name = "pseudo_label"

    def node_terms(self, logits: Tensor, probs: Probs) -> tuple[Tensor, Tensor]:
        """Cross entropy of each node and its derivative."""
        return functional.pseudo_label_terms(logits, probs)
