"""No adaptation: what the base method predicts around the source model."""

from dataclasses import dataclass

from matcha_gnn.gamma.losses import PIC
from matcha_gnn.gamma.result import MatchaResult
from matcha_gnn.gamma.status import Status
from matcha_gnn.gamma.strategies.run import Run, finished
from matcha_gnn.gamma.strategy import Strategy, Task
from matcha_gnn.gamma.trace import Trace


@dataclass(frozen=True)
class Unadapted(Strategy):
    """The model as it is; what `mg.predict` runs.

    Example:
        >>> Unadapted().name, Unadapted().parameters()
        ('none', {})
    """

    name = "none"
    version = 2

    def seek(self, task: Task) -> MatchaResult:
        """Predict once."""
        run = Run(task, gamma_stays=True)
        first = run.predict()
        run.require_finite()
        trace, pic = Trace(), PIC().value(run.view, first)
        trace.add(pic, run.view.gamma, first.class_shares)
        before = first, pic
        return finished(
            self, task, run, first=run, trace=trace, status=Status.UNADAPTED, before=before
        )
