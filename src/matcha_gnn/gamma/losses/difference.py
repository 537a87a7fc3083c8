"""The difference form of the paper's ablation."""

from torch import Tensor

from matcha_gnn import functional
from matcha_gnn.gamma.losses.base import ClusterLoss
from matcha_gnn.gamma.methods.base import Prediction, Prepared, View
from matcha_gnn.typing import FloatArray, Probs, Repr


class Difference(ClusterLoss):
    """(σ²_intra − σ²_inter) / N. Unlike PIC it grows with the scale of γ.

    Args:
        min_share: see `ClusterLoss`.

    Example:
        >>> import torch
        >>> z, probs = torch.tensor([[0.0], [2.0]]), torch.eye(2)
        >>> Difference()(z, probs, probs)
        tensor(-1.)
    """

    name = "difference"

    def __call__(self, z: Repr, logits: Tensor, probs: Probs) -> Tensor:
        """The difference on representations."""
        return functional.difference(z, probs, self.min_share)

    def from_sums(
        self, view: View, prediction: Prediction, prepared: Prepared
    ) -> tuple[float, FloatArray]:
        """The difference and its gradient in the hop weights."""
        between, total = self._slopes(view, prediction)
        hop_weights = view.hop_weights_array
        return functional.difference_from_slopes(hop_weights, between, total, view.hops.num_nodes)
