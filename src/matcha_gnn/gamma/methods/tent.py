"""Tent (Wang et al., ICLR 2021): entropy steps on the batch norm of the target."""

from collections.abc import Callable
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from matcha_gnn.errors import IncompatibleError
from matcha_gnn.gamma.methods.base import (
    BaseMethod,
    Modifies,
    Prediction,
    State,
    View,
    require_linear_head,
)
from matcha_gnn.gamma.methods.tuning import (
    SCALE,
    SHIFT,
    AffineTuner,
    Descent,
    FilterTuner,
    Tuned,
    Tuner,
    Values,
    check_choice,
    check_descent,
    descend,
)
from matcha_gnn.gamma.methods.whole import WholeTuner, batch_norms
from matcha_gnn.gamma.models import Backbone, NormedFilterBackbone
from matcha_gnn.typing import Repr

STATISTICS = ("target", "source")


class Tent(BaseMethod):
    """Normalise by the target's mean and variance, then minimise entropy over scale and shift.

    With û the normalised input of the batch norm and s, t its scale and shift,
    H_0 = after_norm(s·û + t), and the loss is mean_i entropy(softmax(logits_i)). û is made once
    for a target. A step propagates the C − 1 columns of H_0 Wᵀ that determine the softmax, forward
    and backward: 2K sparse products of width C − 1. Where nothing follows the norm,
    P^k H_0 = s·(P^k û) + (P^k 1) tᵀ, and no step or round needs a sparse product. In models that
    are no filter of an encoder, as in wrapped ones, every batch norm is tuned, and a step runs
    the whole model.

    Wang et al., "Tent: Fully Test-Time Adaptation by Entropy Minimization", ICLR 2021, with the
    graph as one batch. Deviations: the prediction follows the last step (the released code uses
    the logits from before it, so that one step on one batch has no effect), and dropout is off.
    The variance is biased, as in batch norm's training mode.

    Args:
        steps: entropy steps; with 0 only the statistics change.
        lr: step size. The published runs took 10 steps of 0.1 on CSBM and one of 10 elsewhere; the
            default goes as far as the former at a tenth of its cost.
        optimizer: "sgd" without momentum, as in the published runs, or "adam", as in Tent's paper.
        statistics: of the "target", as in the paper, or of the "source".

    Example:
        >>> import matcha_gnn as mg
        >>> graph = mg.datasets.csbm(num_nodes=100, num_features=8, seed=0)
        >>> mg.predict(mg.GPRGNN(8, 2), graph, Tent(steps=2)).probs.shape
        torch.Size([100, 2])
    """

    name = "tent"
    modifies = frozenset({Modifies.NORM})

    def __init__(
        self, steps: int = 1, lr: float = 1.0, optimizer: str = "sgd", statistics: str = "target"
    ) -> None:
        check_descent(steps, lr, optimizer)
        check_choice("statistics", statistics, STATISTICS)
        self.steps, self.lr, self.optimizer, self.statistics = steps, lr, optimizer, statistics

    def require(self, model: Backbone) -> None:
        """A linear head, and batch norms with scale and shift."""
        name, norms = model.name, batch_norms(model)
        if not norms:
            raise IncompatibleError(f"tent: {name} has no batch norm with scale and shift to adapt")
        if self.statistics == "source" and any(n.running_mean is None for n in norms.values()):
            raise IncompatibleError(f"tent: the batch norm of {name} has no source statistics")
        require_linear_head(self.name, model)

    def prepare(self, view: View) -> "Tuned":
        """Normalise the input of the batch norm, and propagate the start of every round."""
        model = view.model
        if not isinstance(model, NormedFilterBackbone):
            tuned: Values = {
                f"{path}.{name}": parameter
                for path, module in batch_norms(model).items()
                for name, parameter in module.named_parameters()
            }
            return WholeTuner(view, self.statistics).start(tuned)
        start: Values = {SCALE: model.norm.weight, SHIFT: model.norm.bias}
        return self._tuner(view, model).start(start)

    def _tuner(self, view: View, model: NormedFilterBackbone) -> Tuner:
        """On û, or on its hops where nothing follows the norm."""
        hidden = model.before_norm(model.accept(view.graph.x))
        normal = normalised(hidden, model.norm, self.statistics)
        if _is_identity(model.after_norm, normal):
            return AffineTuner(view, normal)

        def encode(values: Values) -> Repr:
            return model.after_norm(torch.addcmul(values[SHIFT], normal, values[SCALE]))

        return FilterTuner(view, encode)

    def predict(self, view: View, state: State) -> tuple[Prediction, State]:
        """Take the steps at the view's γ; the state is scale, shift and Adam's moments."""
        descent = Descent(self.optimizer, self.lr)
        return descend(state, view, entropy_slope, self.steps, descent)


def normalised(hidden: Tensor, norm: nn.BatchNorm1d, statistics: str) -> Tensor:
    """û: less the mean, over the deviation, of the target or the source, [N, D].

    Args:
        hidden: the input of the norm, [N, D].
        norm: the batch norm.
        statistics: "target" or "source".
    """
    if statistics == "target":
        mean, variance = moments(hidden)
    else:
        variance, mean = cast(Tensor, norm.running_var), cast(Tensor, norm.running_mean)
    return (hidden - mean) * torch.rsqrt(variance + norm.eps)


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


def _is_identity(function: Callable[[Tensor], Tensor], like: Tensor) -> bool:
    """Whether a function of [N, D] leaves entries of either sign and any size unchanged."""
    sizes = 10.0 ** torch.arange(-3, 4, dtype=like.dtype, device=like.device)
    probe = torch.cat([sizes, -sizes])[:, None].repeat(1, like.shape[1])
    return torch.equal(function(probe), probe)
