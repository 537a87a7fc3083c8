"""What a strategy returns: a result with γ, the PIC loss and the trace of its rounds."""

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from matcha_gnn.alarms import Severity, class_alarms
from matcha_gnn.errors import IncompatibleError, optional_imports
from matcha_gnn.gamma.methods import BaseMethod
from matcha_gnn.gamma.models import Backbone, TrainableBackbone
from matcha_gnn.gamma.status import DOUBTFUL, NOT_CHECKED, Status
from matcha_gnn.gamma.strategy import Strategy
from matcha_gnn.gamma.trace import Trace
from matcha_gnn.kernels.contexts import plain_torch
from matcha_gnn.result import Result
from matcha_gnn.typing import Parameters

if TYPE_CHECKING:
    from matcha_gnn.questions.questions import Questions


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class MatchaResult(Result):
    """The result of a strategy, which compares nothing.

    Attributes:
        gamma: adapted hop-aggregation parameters.
        gamma_before: the source's.
        pic_before: the PIC loss at the source γ, whatever the loss was.
        pic_after: the PIC loss at the adapted γ.
        trace: loss, γ and class shares per round.
        ended: how it ended.
        strategy: what sought a better model, with its base method and seed.
    """

    gamma: Tensor
    gamma_before: Tensor
    pic_before: float
    pic_after: float
    trace: Trace
    ended: Status
    strategy: Strategy

    @property
    def status(self) -> Status:
        """How it ended."""
        return self.ended

    @property
    def method(self) -> BaseMethod:
        """The base method."""
        return self.strategy.method

    @property
    def backbone(self) -> Backbone:
        """The adapted copy of the model."""
        model = self.model
        assert isinstance(model, Backbone), "strategies run on models with γ alone"
        return model

    @property
    def rounds(self) -> int:
        """Steps that γ took down a loss."""
        return max(0, len(self.trace.loss) - 1)

    @property
    def moves(self) -> str:
        """Which parameters took the steps: "gamma"; "theta", the encoder; or "both"."""
        return str(self.strategy.parameters().get("moves", "gamma"))

    @property
    def loss_name(self) -> str | None:
        """Of the loss that γ minimised, where there was one."""
        loss = self.strategy.parameters().get("loss")
        return str(loss["name"]) if isinstance(loss, dict) else None

    def configuration(self) -> Parameters:
        """What decided the outcome beside model and graph, as JSON values."""
        return {
            "method": self.method.name,
            "method_parameters": self.method.settings(),
            "strategy": self.strategy.name,
            "strategy_version": self.strategy.version,
            "strategy_parameters": self.strategy.parameters(),
            "seed": self.strategy.seed,
        }

    @property
    def alarms(self) -> tuple[str, ...]:
        """What calls for a look before the predictions are used: short sentences with figures."""
        return class_alarms(*self.class_counts, self.class_names)

    @property
    def severity(self) -> Severity:
        """How the outcome is to be read; never good, as nothing was compared."""
        if self.alarms:
            return Severity.ALARM
        return Severity.WARNING if self.ended in DOUBTFUL else Severity.NEUTRAL

    def ask(self, count: int = 20, **options: Any) -> "Questions":
        """Refused: a strategy compares nothing."""
        raise IncompatibleError(
            f"ask: there are no candidates to choose among: strategy {self.strategy.name!r} "
            "compares nothing, and mg.adapt without a strategy does"
        )

    def summary(self) -> str:
        """How it ended, for a reader; alarms among it."""
        unchecked = [] if self.ended is Status.UNADAPTED else [NOT_CHECKED]
        return " ".join([*self.alarms, self.ended.meaning, *unchecked])

    def __repr__(self) -> str:
        """One line instead of every tensor."""
        alarms = f"; {self.severity}: {' '.join(self.alarms)}" if self.alarms else ""
        return (
            f"MatchaResult({self.method.name}, {self.strategy.name}: {self.ended}, {self.rounds} "
            f"rounds, PIC {self.pic_before:.4f} → {self.pic_after:.4f}, {self.changed:.1%} of "
            f"labels changed{alarms})"
        )

    def to_dict(self) -> Parameters:
        """The outcome as JSON values."""
        own = {
            "pic_before": self.pic_before,
            "pic_after": self.pic_after,
            "gamma_before": self.gamma_before.tolist(),
            "gamma_after": self.gamma.tolist(),
            "trace": self.trace.rows(),
        }
        return super().to_dict() | self.configuration() | own

    def metrics(self) -> dict[str, float]:
        """The outcome as finite numbers by flat names, such as an experiment tracker logs.

        The loss is that of the last entry of the trace; `trace.rows()` has the same for every
        round, `configuration()` the settings.

        Example:
            >>> import matcha_gnn as mg
            >>> graph = mg.datasets.csbm(num_nodes=50, num_features=4, seed=0)
            >>> result = mg.predict(mg.GPRGNN(4, 2, K=1), graph)
            >>> result.metrics()["rounds"]
            0.0
        """
        values = {
            "changed": self.changed,
            "rounds": float(self.rounds),
            "pic_before": self.pic_before,
            "pic_after": self.pic_after,
        }
        values |= self.trace.row(-1) if len(self.trace) else {}
        values |= {f"seconds_{stage}": each for stage, each in self.seconds.items()}
        return {name: value for name, value in values.items() if math.isfinite(value)}

    @plain_torch()
    def save(self, path: str | Path) -> None:
        """Write the adapted model to a model file, to be read with `mg.load_model`.

        Raises:
            IncompatibleError: no architecture that can be built again from a file.
        """
        from matcha_gnn.gamma.files import save_model

        if not isinstance(self.model, TrainableBackbone):
            raise IncompatibleError(
                f"save: {self.model.name} with hop weights has no model file: keep result.gamma, "
                "and put it into mg.wrap(net).gamma"
            )
        save_model(self.model, path)

    @property
    def call(self) -> str:
        """The call that gives this result again."""
        strategy = re.sub(r"\b(?=[A-Za-z]\w*\()", "mg.", repr(self.strategy))
        return f"mg.adapt(model, graph, strategy={strategy})"

    @plain_torch()
    def report(
        self,
        path: str | Path,
        labels: Tensor | None = None,
        mask: Tensor | None = None,
        *,
        command: str | None = None,
        graph: str | None = None,
    ) -> None:
        """Write a self-contained HTML page; see `Result.report`."""
        with optional_imports("report"):
            from matcha_gnn.gamma.page import write_page
        write_page(self, path, labels, mask, command=command, graph=graph)

    @property
    def gamma_moved(self) -> bool:
        """Whether hop weights differ from the source's."""
        return not torch.equal(self.gamma, self.gamma_before)
