"""How a better model is sought on a target graph."""

from matcha_gnn.strategies.base import Proposal, Strategy, Task
from matcha_gnn.strategies.closed_form import ClosedForm
from matcha_gnn.strategies.fitted import Fitted
from matcha_gnn.strategies.guarded import Guarded
from matcha_gnn.strategies.matcha import Matcha
from matcha_gnn.strategies.unadapted import Unadapted

STRATEGIES: dict[str, type[Strategy]] = {
    strategy.name: strategy for strategy in (Guarded, Matcha, ClosedForm, Fitted)
}

__all__ = [
    "STRATEGIES",
    "ClosedForm",
    "Fitted",
    "Guarded",
    "Matcha",
    "Proposal",
    "Strategy",
    "Task",
    "Unadapted",
]
