"""Losses of the two variances, σ²_total = cᵀSc and σ²_inter = cᵀBc: PIC, and a difference."""

from dataclasses import dataclass

import numpy as np
from torch import Tensor
from typing_extensions import override

from matcha_gnn.errors import require_number
from matcha_gnn.gamma import functional
from matcha_gnn.gamma.hops import Hops
from matcha_gnn.gamma.losses.base import Loss
from matcha_gnn.gamma.methods.base import Prediction, Prepared, View
from matcha_gnn.typing import FloatArray, Probs, Repr


@dataclass(frozen=True)
class ClusterLoss(Loss):
    """A loss of the two variances.

    Args:
        min_share: a class that holds less than this share of the predicted mass is left out of
            σ²_inter.
    """

    min_share: float = 1e-9

    def __post_init__(self) -> None:
        require_number("min_share", self.min_share, least=0, below=1)

    def prepare(self, view: View) -> None:
        """Compute the Gram matrix of the hops, which is cached."""
        _ = view.hops.gram

    def _slopes(self, view: View, prediction: Prediction) -> tuple[FloatArray, FloatArray]:
        """B c and S c, [K+1] each."""
        between = prediction.between_slope(view, self.min_share)
        return between, view.hops.gram @ view.hop_weights_array


class PIC(ClusterLoss):
    """σ²_intra / (σ²_intra + σ²_inter) of the representations under the predicted classes.

    The prediction-informed clustering loss of Matcha. In [0, 1]; does not change when γ is scaled
    or its sign flipped.

    Args:
        min_share: see `ClusterLoss`.

    Example:
        >>> import torch
        >>> z, probs = torch.tensor([[0.0], [0.0], [1.0]]), torch.eye(2)[[0, 0, 1]]
        >>> PIC()(z, probs, probs)
        tensor(0.)
    """

    name = "pic"

    @override
    def __call__(self, z: Repr, logits: Tensor, probs: Probs) -> Tensor:
        return functional.pic(z, probs, self.min_share)

    @override
    def from_sums(
        self, view: View, prediction: Prediction, prepared: Prepared
    ) -> tuple[float, FloatArray]:
        now = view.hop_weights_array
        least = _least_variance(now, view.hops)
        return functional.pic_from_slopes(now, *self._slopes(view, prediction), least)

    def minimiser(self, view: View, prediction: Prediction, prepared: Prepared) -> FloatArray:
        """The hop weights under which the predicted classes are furthest apart.

        PIC does not depend on their sign: it is that of the current representation. The current
        hop weights where no others are better by more than rounding, such as with one predicted
        class, or with nodes that are all equal.
        """
        hops, sums = view.hops, prediction.class_sums(view)
        between = functional.between_form(sums, prediction.mass, hops.mean, self.min_share)
        total, now = hops.gram, view.hop_weights_array
        best = functional.best_hop_weights(between, total)
        loss, lowest = (
            functional.pic_from_forms(each, between, total, _least_variance(each, hops))[0]
            for each in (now, best)
        )
        if not lowest < loss - functional.rounding_of(hops.summed_in):
            return now
        return best if best @ total @ now >= 0 else -best


class Difference(ClusterLoss):
    """(σ²_intra − σ²_inter) / N, of the paper's ablation. Unlike PIC it grows with the scale of γ.

    Args:
        min_share: see `ClusterLoss`.

    Example:
        >>> import torch
        >>> z, probs = torch.tensor([[0.0], [2.0]]), torch.eye(2)
        >>> Difference()(z, probs, probs)
        tensor(-1.)
    """

    name = "difference"

    @override
    def __call__(self, z: Repr, logits: Tensor, probs: Probs) -> Tensor:
        return functional.difference(z, probs, self.min_share)

    @override
    def from_sums(
        self, view: View, prediction: Prediction, prepared: Prepared
    ) -> tuple[float, FloatArray]:
        between, total = self._slopes(view, prediction)
        hop_weights = view.hop_weights_array
        return functional.difference_from_slopes(hop_weights, between, total, view.hops.num_nodes)


def _least_variance(hop_weights: FloatArray, hops: Hops) -> float:
    """The variance that rounding of the hops may show in Z."""
    size = float(np.abs(hop_weights) @ hops.sizes)
    return functional.rounding_variance(size, hops.summed_in)
