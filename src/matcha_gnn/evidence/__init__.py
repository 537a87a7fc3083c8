"""Evidence for the classes of a graph without labels: node-only features, then edges."""

from matcha_gnn.evidence.goals import ACCURACY, Goal, Metric, Wanted
from matcha_gnn.evidence.posterior import Interval, Posterior, infer
from matcha_gnn.evidence.weights import fit_hop_weights

__all__ = [
    "ACCURACY",
    "Goal",
    "Interval",
    "Metric",
    "Posterior",
    "Wanted",
    "fit_hop_weights",
    "infer",
]
