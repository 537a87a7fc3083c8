"""Means over nodes of a term in the node's logits, as losses for γ (the paper's ablation)."""

import abc

import numpy as np
import torch
from torch import Tensor
from typing_extensions import override

from matcha_gnn.gamma import functional
from matcha_gnn.gamma.losses.base import Loss
from matcha_gnn.gamma.methods.base import Prediction, Prepared, View
from matcha_gnn.typing import FloatArray, Probs, Repr


class LogitLoss(Loss):
    """A mean over nodes of a term in the node's logits.

    With g_i the term's derivative in the logits of node i, the gradient in c_k is
    mean_i ⟨g_i, W H_k[i]⟩ = ⟨W, Σ_i g_i ⊗ H_k[i]⟩ / N: class sums with weights g.
    """

    @abc.abstractmethod
    def node_terms(self, logits: Tensor, probs: Probs) -> tuple[Tensor, Tensor]:
        """Each node's term [N], and its derivative in the logits [N, C]."""

    @override
    def __call__(self, z: Repr, logits: Tensor, probs: Probs) -> Tensor:
        return self.node_terms(logits, probs)[0].mean()

    @override
    def from_sums(
        self, view: View, prediction: Prediction, prepared: Prepared
    ) -> tuple[float, FloatArray]:
        terms, slopes = self.node_terms(view.logits, prediction.probs)
        sums = view.hops.class_sums(slopes)
        head = view.model.head.weight.detach().double().cpu().numpy()
        gradient = np.einsum("ckd,cd->k", sums, head) / view.hops.num_nodes
        return float(terms.sum(dtype=torch.float64)) / view.hops.num_nodes, gradient


class Entropy(LogitLoss):
    """Mean entropy of the model's softmax.

    Example:
        >>> Entropy()(torch.zeros(1, 1), torch.zeros(1, 2), torch.zeros(1, 2))
        tensor(0.6931)
    """

    name = "entropy"

    @override
    def node_terms(self, logits: Tensor, probs: Probs) -> tuple[Tensor, Tensor]:
        return functional.entropy_terms(logits)


class PseudoLabel(LogitLoss):
    """Mean cross entropy of the model's softmax against the base method's hard labels.

    Example:
        >>> PseudoLabel()(torch.zeros(1, 1), torch.zeros(1, 2), torch.tensor([[0.9, 0.1]]))
        tensor(0.6931)
    """

    name = "pseudo_label"

    @override
    def node_terms(self, logits: Tensor, probs: Probs) -> tuple[Tensor, Tensor]:
        return functional.pseudo_label_terms(logits, probs)
