"""How a better model is sought on a target graph."""

from matcha_gnn.gamma.strategies.closed_form import ClosedForm as ClosedForm
from matcha_gnn.gamma.strategies.matcha import Matcha as Matcha
from matcha_gnn.gamma.strategies.unadapted import Unadapted as Unadapted
from matcha_gnn.gamma.strategy import Strategy as Strategy
from matcha_gnn.gamma.strategy import Task as Task
from matcha_gnn.registry import registered

STRATEGIES: dict[str, type[Strategy]] = registered(vars(), Strategy)
