"""Losses for γ, in two forms that agree in value and gradient."""

import abc
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from matcha_gnn import functional
from matcha_gnn.errors import IncompatibleError, require_number
from matcha_gnn.gamma.methods.base import Prediction, Prepared, View
from matcha_gnn.gamma.methods.settings import Configured
from matcha_gnn.typing import FloatArray, HopForm, Probs, Repr


class Loss(Configured, abc.ABC):
    """A label-free objective of the representation, given the base method's prediction.

    Calling the loss is the plain form on Z, for autograd. `from_sums` is the fast form for
    models that mix cached hops linearly: the value, and its exact gradient in the hop weights.

    Attributes:
        name: its name on the command line.
        needs_filter: it is a function of the hop weights of a filter, and has no plain form on Z.
    """

    name: ClassVar[str]
    needs_filter: ClassVar[bool] = False

    @abc.abstractmethod
    def __call__(self, z: Repr, logits: Tensor, probs: Probs) -> Tensor:
        """The loss, [].

        Args:
            z: representations, [N, D].
            logits: the model's head on z, [N, C].
            probs: the base method's prediction, [N, C], held constant.
        """

    def prepare(self, view: View) -> Prepared:
        """What is the same in every round, computed once for a target graph."""
        return None

    @abc.abstractmethod
    def from_sums(
        self, view: View, prediction: Prediction, prepared: Prepared
    ) -> tuple[float, FloatArray]:
        """Value and gradient [K+1] in the hop weights c."""

    def value(self, view: View, prediction: Prediction) -> float:
        """The loss alone, at a view."""
        return self.from_sums(view, prediction, self.prepare(view))[0]

    @property
    def has_minimiser(self) -> bool:
        """Whether its minimum for fixed predictions is known."""
        return type(self).minimiser is not Loss.minimiser

    def minimiser(self, view: View, prediction: Prediction, prepared: Prepared) -> FloatArray:
        """The hop weights [K+1] that minimise the loss for fixed predictions, in closed form.

        Raises:
            IncompatibleError: there is no closed form.
        """
        raise IncompatibleError(f"loss {self.name!r} has no minimum in closed form")


class ClusterLoss(Loss):
    """A loss of the two variances, σ²_total = cᵀSc and σ²_inter = cᵀBc.

    Args:
        min_share: a class that holds less than this share of the predicted mass is left out of
            σ²_inter.
    """

    def __init__(self, min_share: float = 1e-9) -> None:
        require_number("min_share", min_share, least=0, below=1)
        self.min_share = min_share

    def prepare(self, view: View) -> None:
        """Compute the Gram matrix of the hops, which is cached."""
        _ = view.hops.gram

    def _slopes(self, view: View, prediction: Prediction) -> tuple[FloatArray, FloatArray]:
        """B c and S c, [K+1] each."""
        between = prediction.between_slope(view, self.min_share)
        return between, view.hops.gram @ view.hop_weights_array

    def _forms(self, view: View, prediction: Prediction) -> tuple[HopForm, HopForm]:
        hops, sums = view.hops, prediction.class_sums(view)
        between = functional.between_form(sums, prediction.mass, hops.mean, self.min_share)
        return between, hops.gram


class LogitLoss(Loss):
    """A mean over nodes of a term in the node's logits.

    With g_i the term's derivative in the logits of node i, the gradient in c_k is
    mean_i ⟨g_i, W H_k[i]⟩ = ⟨W, Σ_i g_i ⊗ H_k[i]⟩ / N: class sums with weights g.
    """

    @abc.abstractmethod
    def node_terms(self, logits: Tensor, probs: Probs) -> tuple[Tensor, Tensor]:
        """Each node's term [N], and its derivative in the logits [N, C]."""

    def __call__(self, z: Repr, logits: Tensor, probs: Probs) -> Tensor:
        """The mean of the terms."""
        return self.node_terms(logits, probs)[0].mean()

    def from_sums(
        self, view: View, prediction: Prediction, prepared: Prepared
    ) -> tuple[float, FloatArray]:
        """Value and gradient in the hop weights."""
        terms, slopes = self.node_terms(view.logits, prediction.probs)
        sums = view.hops.class_sums(slopes)
        head = view.model.head.weight.detach().double().cpu().numpy()
        gradient = np.einsum("ckd,cd->k", sums, head) / view.hops.num_nodes
        return float(terms.sum(dtype=torch.float64)) / view.hops.num_nodes, gradient
