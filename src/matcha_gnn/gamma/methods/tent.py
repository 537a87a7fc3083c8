"""Tent (Wang et al., ICLR 2021): entropy steps on the batch norm of the target."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from matcha_gnn.errors import IncompatibleError
from matcha_gnn.gamma.methods.base import Modifies, Prediction, State, View
from matcha_gnn.gamma.methods.tuning import (
    DescentMethod,
    FilterTuner,
    Tuned,
    WholeTuner,
    descend,
)
from matcha_gnn.gamma.methods.whole import Values, norms_of
from matcha_gnn.gamma.models import GPRGNN, Backbone
from matcha_gnn.typing import Repr

SCALE, SHIFT = "norm.weight", "norm.bias"


@dataclass(frozen=True)
class Tent(DescentMethod):
    """Normalise by the target's mean and variance, then minimise entropy over scale and shift.

    With û the normalised input of the batch norm and s, t its scale and shift,
    H_0 = after_norm(s·û + t), and the loss is mean_i entropy(softmax(logits_i)). û is made once
    for a target. A step propagates the C − 1 columns of H_0 Wᵀ that determine the softmax, forward
    and backward: 2K sparse products of width C − 1. In models that are no GPRGNN or APPNP, as in
    wrapped ones, every batch norm is tuned, and a step runs the whole model.

    Wang et al., "Tent: Fully Test-Time Adaptation by Entropy Minimization", ICLR 2021, with the
    graph as one batch. Deviations: the prediction follows the last step (the released code uses
    the logits from before it, so that one step on one batch has no effect), and dropout is off.
    The variance is biased, as in batch norm's training mode.

    Args:
        steps: entropy steps; with 0 only the statistics change.
        lr: step size. The published runs took 10 steps of 0.1 on CSBM and one of 10 elsewhere; the
            default goes as far as the former at a tenth of its cost.
        optimizer: "sgd" without momentum, as in the published runs, or "adam", as in Tent's paper.

    Example:
        >>> import matcha_gnn as mg
        >>> graph = mg.datasets.csbm(num_nodes=100, num_features=8, seed=0)
        >>> mg.predict(mg.GPRGNN(8, 2), graph, Tent(steps=2)).probs.shape
        torch.Size([100, 2])
    """

    name = "tent"
    modifies = frozenset({Modifies.NORM})

    def require(self, model: Backbone) -> None:
        """A linear head, and batch norms with scale and shift."""
        if not any(norm.affine for norm in norms_of(model).values()):
            raise IncompatibleError(
                f"tent: {model.name} has no batch norm with scale and shift to adapt"
            )
        super().require(model)

    def prepare(self, view: View) -> Tuned:
        """û of the target, and the source's scale and shift, where every round starts."""
        model = view.model
        if not isinstance(model, GPRGNN):
            norms = {path: norm for path, norm in norms_of(model).items() if norm.affine}
            trained: Values = {
                f"{path}.{name}": parameter
                for path, norm in norms.items()
                for name, parameter in norm.named_parameters()
            }
            return WholeTuner(view, on_target=True).start(trained)
        hidden = model.linear(model.accept(view.graph.x))
        mean, variance = moments(hidden)
        normal = (hidden - mean) * torch.rsqrt(variance + model.norm.eps)
        start: Values = {SCALE: model.norm.weight, SHIFT: model.norm.bias}

        def encode(values: Values) -> Repr:
            return model.after_norm(torch.addcmul(values[SHIFT], normal, values[SCALE]))

        return FilterTuner(view, encode).start(start)

    def predict(self, view: View, state: State) -> tuple[Prediction, State]:
        """Take the steps at the view's γ; the state is scale, shift and Adam's moments."""
        return descend(state, view, entropy_slope, self)


def moments(hidden: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and biased variance of all rows, [D] each; by their sums, as results are recorded.

    Example:
        >>> moments(torch.tensor([[1.0], [2.0], [6.0]]))
        (tensor([3.]), tensor([4.6667]))
    """
    count, of_rows = len(hidden), torch.var_mean(hidden, 0, correction=0)
    variance, mean = (each.double().cpu().numpy() for each in of_rows)
    squares = count * (variance + mean**2)
    mean = count * mean / count
    variance = np.maximum(squares / count - mean**2, 0)
    return torch.from_numpy(mean).to(hidden), torch.from_numpy(variance).to(hidden)


def entropy_slope(log_probs: Tensor) -> Tensor:
    """Derivative of the mean entropy in the logits, from log probabilities [C, N]: [C, N].

    `functional.entropy_terms` with nodes along the rows, where torch is ten times faster.
    """
    probs = log_probs.exp()
    entropy = -(probs * log_probs).sum(0)
    return probs * (log_probs + entropy) / -log_probs.shape[1]
