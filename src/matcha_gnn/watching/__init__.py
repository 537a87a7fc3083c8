"""A deployed model on a stream of graphs: is it still right, since when not, and what to do."""

from matcha_gnn.watching.alarms import Alarm, AlarmKind
from matcha_gnn.watching.steps import Step
from matcha_gnn.watching.watch import Watch

__all__ = ["Alarm", "AlarmKind", "Step", "Watch"]
