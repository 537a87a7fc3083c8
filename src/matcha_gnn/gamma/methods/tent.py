"""Tent (Wang et al., ICLR 2021): entropy steps on the batch norm of the target."""

from collections.abc import Callable, Iterable
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
from matcha_gnn.gamma.methods.streamed import StreamedTuner
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
from matcha_gnn.graphs.memory import LocalGraph
from matcha_gnn.graphs.shards import Shard
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
    streams = True

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
        """û is kept where the graph is in memory, else computed again block by block."""
        norm, graph = model.norm, view.graph

        def hidden(block: LocalGraph) -> Tensor:
            return model.before_norm(model.accept(block.x))

        def from_normal(values: Values, normal: Tensor) -> Repr:
            return model.after_norm(torch.addcmul(values[SHIFT], normal, values[SCALE]))

        if not isinstance(graph, LocalGraph):
            hiddens = (hidden(block) for _, block in graph.blocks())
            normalise = normaliser(hiddens, norm, self.statistics, graph.shard)
            return StreamedTuner(view, lambda v, block: from_normal(v, normalise(hidden(block))))
        whole = hidden(graph)
        normal = normaliser([whole], norm, self.statistics, graph.shard)(whole)
        # It caches hops in memory; where `make_hops` is set there is no room for them.
        if graph.make_hops is None and _is_identity(model.after_norm, normal):
            return AffineTuner(view, normal)
        return FilterTuner(view, lambda values: from_normal(values, normal))

    def predict(self, view: View, state: State) -> tuple[Prediction, State]:
        """Take the steps at the view's γ; the state is scale, shift and Adam's moments."""
        descent = Descent(self.optimizer, self.lr)
        return descend(state, view, entropy_slope, self.steps, descent)


def normaliser(
    hiddens: Iterable[Tensor], norm: nn.BatchNorm1d, statistics: str, shard: Shard
) -> Callable[[Tensor], Tensor]:
    """The map from [n, D] to û: less the mean, over the deviation, of the target or the source.

    Args:
        hiddens: the input of the norm, block by block; read only for the target's statistics.
        norm: the batch norm.
        statistics: "target" or "source".
        shard: the shard of the blocks.
    """
    if statistics == "target":
        mean, variance = moments(hiddens, shard)
    else:
        variance, mean = cast(Tensor, norm.running_var), cast(Tensor, norm.running_mean)
    scale = torch.rsqrt(variance + norm.eps)
    return lambda hidden: (hidden - mean) * scale


def moments(blocks: Iterable[Tensor], shard: Shard) -> tuple[Tensor, Tensor]:
    """Mean and biased variance of all rows, [D] each, from blocks of them.

    Example:
        >>> from matcha_gnn.graphs.shards import WHOLE
        >>> moments([torch.tensor([[1.0], [2.0]]), torch.tensor([[6.0]])], WHOLE)
        (tensor([3.]), tensor([4.6667]))
    """
    count, first, second = 0.0, np.zeros(()), np.zeros(())
    for block in blocks:
        of_block = torch.var_mean(block, 0, correction=0)
        variance, mean = (each.double().cpu().numpy() for each in of_block)
        count += len(block)
        first, second = first + len(block) * mean, second + len(block) * (variance + mean**2)
    total, first, second = shard.total(count, first, second)
    mean = first / total
    found = (torch.from_numpy(each) for each in (mean, np.maximum(second / total - mean**2, 0)))
    to_mean, to_variance = (each.to(block) for each in found)
    return to_mean, to_variance


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
