"""γ where a loss is smallest, without step size or search."""

import math
from dataclasses import dataclass, field

import torch

from matcha_gnn.errors import IncompatibleError, require_kind, require_whole
from matcha_gnn.gamma.losses import SURE, Loss
from matcha_gnn.gamma.models import Backbone
from matcha_gnn.gamma.result import MatchaResult
from matcha_gnn.gamma.strategies.matcha import descend, require_loss
from matcha_gnn.gamma.strategies.run import Run
from matcha_gnn.gamma.strategy import Strategy, Task


@dataclass(frozen=True)
class ClosedForm(Strategy):
    """Put γ where a loss is smallest for the base method's predictions.

    The representation keeps its scale, as the head's softmax was trained for it. Where the loss has
    no minimum γ stays.

    Args:
        loss: one that knows its minimum. `SURE` does not depend on predictions.
        rounds: how often; more than once for a loss that depends on predictions, such as `PIC`.

    Example:
        >>> import matcha_gnn as mg
        >>> graph = mg.datasets.csbm(num_nodes=100, num_features=8, seed=0)
        >>> strategy = ClosedForm(loss=mg.SURE(noise_share=0.5))
        >>> result = mg.adapt(mg.GPRGNN(8, 2), graph, strategy=strategy)
        >>> result.trace.loss[1] <= result.trace.loss[0]
        True
    """

    name = "closed_form"
    version = 3

    loss: Loss = field(default_factory=SURE)
    rounds: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        require_kind("loss", self.loss, Loss, "a Loss, such as mg.SURE()")
        require_whole("rounds", self.rounds, least=1)

    def require(self, model: Backbone) -> None:
        """Hop weights must be free, and the loss must know its minimum."""
        require_loss(self.loss, model)
        if type(self.loss).minimiser is Loss.minimiser:
            raise IncompatibleError(f"loss {self.loss.name!r} has no minimum in closed form")
        if not model.gamma_is_hop_weights:
            raise IncompatibleError(
                f"strategy 'closed_form' needs hop weights that are free; those of {model.name} "
                "are a function of γ"
            )

    def seek(self, task: Task) -> MatchaResult:
        """Step to the minimum, and predict there."""
        run = Run(task, self.loss)
        return descend(self, task, run, lambda: _step(run), self.rounds)


def _step(run: Run) -> None:
    best = run.loss.minimiser(run.view, run.prediction, run.loss_prepared)
    total, now = run.hops.gram, run.view.hop_weights_array
    size = best @ total @ best
    if size > 0:
        scale = math.sqrt(now @ total @ now / size)
        run.gamma.detach().copy_(torch.from_numpy(scale * best))
