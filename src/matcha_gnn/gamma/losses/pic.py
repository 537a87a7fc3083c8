"""The prediction-informed clustering loss of Matcha."""

import numpy as np
from torch import Tensor

from matcha_gnn import functional
from matcha_gnn.gamma.hops import Hops
from matcha_gnn.gamma.losses.base import ClusterLoss
from matcha_gnn.gamma.methods.base import Prediction, Prepared, View
from matcha_gnn.typing import FloatArray, Probs, Repr


class PIC(ClusterLoss):
    """σ²_intra / (σ²_intra + σ²_inter) of the representations under the predicted classes.

    In [0, 1]; does not change when γ is scaled or its sign flipped.

    Args:
        min_share: see `ClusterLoss`.

    Example:
        >>> import torch
        >>> z, probs = torch.tensor([[0.0], [0.0], [1.0]]), torch.eye(2)[[0, 0, 1]]
        >>> PIC()(z, probs, probs)
        tensor(0.)
    """

    name = "pic"

    def __call__(self, z: Repr, logits: Tensor, probs: Probs) -> Tensor:
        """PIC on representations."""
        return functional.pic(z, probs, self.min_share)

    def from_sums(
        self, view: View, prediction: Prediction, prepared: Prepared
    ) -> tuple[float, FloatArray]:
        """PIC and its gradient in the hop weights."""
        now = view.hop_weights_array
        least = self._least(now, view.hops)
        return functional.pic_from_slopes(now, *self._slopes(view, prediction), least)

    def minimiser(self, view: View, prediction: Prediction, prepared: Prepared) -> FloatArray:
        """The hop weights under which the predicted classes are furthest apart.

        PIC does not depend on their sign: it is that of the current representation. The current
        hop weights where no others are better by more than rounding, such as with one predicted
        class, or with nodes that are all equal.
        """
        between, total = self._forms(view, prediction)
        now, best = view.hop_weights_array, functional.best_hop_weights(between, total)
        loss, lowest = (
            functional.pic_from_forms(each, between, total, self._least(each, view.hops))[0]
            for each in (now, best)
        )
        if not lowest < loss - functional.rounding_of(view.hops.summed_in):
            return now
        return best if best @ total @ now >= 0 else -best

    def _least(self, hop_weights: FloatArray, hops: Hops) -> float:
        """The variance that rounding of the hops may show in Z."""
        size = float(np.abs(hop_weights) @ hops.sizes)
        return functional.rounding_variance(size, hops.summed_in)
