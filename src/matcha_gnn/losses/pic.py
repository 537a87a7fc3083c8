"""The prediction-informed clustering loss of Matcha."""

from torch import Tensor

from matcha_gnn import functional
from matcha_gnn.losses.base import ClusterLoss
from matcha_gnn.methods.base import Prediction, Prepared, View
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
        return functional.pic_from_slopes(view.hop_weights_array, *self._slopes(view, prediction))

    def minimiser(self, view: View, prediction: Prediction, prepared: Prepared) -> FloatArray:
        """The hop weights under which the predicted classes are furthest apart.

        PIC does not depend on their sign: it is that of the current representation.
        """
        between, total = self._forms(view, prediction)
        best = functional.best_hop_weights(between, total)
        return best if best @ total @ view.hop_weights_array >= 0 else -best
