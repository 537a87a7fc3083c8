"""Algorithm 1 of the paper.

Each round the base method predicts, then γ takes one step down the loss; after the last step the
base method predicts once more.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import torch

from matcha_gnn.errors import (
    IncompatibleError,
    InvalidArgumentError,
    require_kind,
    require_number,
    require_whole,
)
from matcha_gnn.gamma.losses import PIC, Loss
from matcha_gnn.gamma.methods import Modifies
from matcha_gnn.gamma.methods.settings import require_choice
from matcha_gnn.gamma.models import Backbone, FilterBackbone, LinearBackbone
from matcha_gnn.gamma.result import MatchaResult
from matcha_gnn.gamma.status import outcome
from matcha_gnn.gamma.strategies.run import Run, Ways, finished
from matcha_gnn.gamma.strategy import Strategy, Task
from matcha_gnn.gamma.trace import Trace

Move = Callable[[], object]


def step_down(parameters: list[torch.nn.Parameter], lr: float) -> None:
    """Down the gradients. `torch.optim.SGD` spends longer on bookkeeping than on K+1 numbers."""
    for parameter in parameters:
        if parameter.grad is not None:
            parameter.detach().add_(parameter.grad, alpha=-lr)


@dataclass(frozen=True)
class Matcha(Strategy):
    """The published algorithm: a fixed number of steps of γ down a loss, the last one kept.

    Args:
        method: the base method that predicts in each round.
        seed: for base methods that draw at random.
        loss: what γ minimises.
        lr: step size.
        rounds: number of steps.
        moves: which parameters take the steps: "gamma"; "theta", the encoder; or "both".
        restart: run the base method from its start in each round; otherwise it carries on, which
            is an error for methods that keep nothing from round to round.
        features: whose representation enters the loss where the base method changes it: the
            "source" model's at the current γ, as in the published runs, or the "base" method's,
            which is an error for methods that do not change it.

    Example:
        >>> import matcha_gnn as mg
        >>> graph = mg.datasets.csbm(num_nodes=100, num_features=8, seed=0)
        >>> result = mg.adapt(mg.GPRGNN(8, 2), graph, strategy=Matcha(rounds=3))
        >>> len(result.trace.loss)
        4
    """

    name = "matcha"
    version = 2

    loss: Loss = field(default_factory=PIC)
    lr: float = 1.0
    rounds: int = 50
    moves: str = "gamma"
    restart: bool = True
    features: str = "source"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_kind("loss", self.loss, Loss, "a Loss, such as mg.PIC()")
        require_number("lr", self.lr, above=0, below=1e30)
        require_whole("rounds", self.rounds, least=1)
        require_kind("restart", self.restart, bool, "True or False")
        require_choice("moves", self.moves, ("gamma", "theta", "both"))
        require_choice("features", self.features, ("source", "base"))
        if self.features == "base" and self.moves != "gamma":
            raise InvalidArgumentError("features", "'base'", "source, unless moves is gamma")

    def require(self, model: Backbone) -> None:
        """The loss may need a filter, and the method's features need cached hops."""
        method = self.method
        require_loss(self.loss, model, self.moves)
        if self.features == "base":
            if not isinstance(model, LinearBackbone):
                raise IncompatibleError(
                    f"features: 'base' needs cached hops, which {model.name} has not"
                )
            if not method.modifies - {Modifies.HEAD}:
                raise IncompatibleError(
                    f"features: 'base' has no effect with {method.name}, which leaves the "
                    "representation as it is"
                )
        if not (self.restart or method.keeps_state):
            raise IncompatibleError(
                f"restart: False has no effect with {method.name}, which keeps nothing from round "
                "to round"
            )

    def seek(self, task: Task) -> MatchaResult:
        """All rounds, and the prediction after the last."""
        run = Run(task, self.loss, Ways(self.moves, self.restart, self.features))
        return descend(self, task, run, partial(step_down, run.moving, self.lr), self.rounds)


def require_loss(loss: Loss, model: Backbone, moves: str = "gamma") -> None:
    """Raise IncompatibleError if a loss cannot be taken of a model."""
    if loss.needs_filter and not (moves == "gamma" and isinstance(model, FilterBackbone)):
        raise IncompatibleError(
            f"loss {loss.name!r} needs moves 'gamma' and a model that is a filter of its own logits"
        )


def descend(strategy: Strategy, task: Task, run: Run, move: Move, rounds: int) -> MatchaResult:
    """Predict, take the loss, move; predict once more after the last move.

    Args:
        strategy: whose rounds these are.
        task: what it runs on.
        run: the base method around a copy of the model.
        move: one step of the parameters, by the gradients that `run` has left on them.
        rounds: number of steps.
    """
    trace, finite = Trace(), True
    first = run.predict()
    run.require_finite()
    before = first, PIC().value(run.view, first)
    for number in range(rounds):
        value = run.descend_direction()
        finite = math.isfinite(value)
        if not finite:
            run.rewind(trace)
            break
        trace.add(value, run.view.gamma, run.prediction.class_shares)
        run.step(move)
        run.predict()
        task.progress(number + 1, rounds)
    if not run.prediction.finite:
        finite = False
        run.rewind(trace)
        run.require_finite()
    last = run.prediction
    trace.add(run.descend_direction(), run.view.gamma, last.class_shares)
    status = outcome(trace, first, last, finite)
    return finished(strategy, task, run, first=run, trace=trace, status=status, before=before)
