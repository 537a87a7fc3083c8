"""Evidence for the classes of a graph without labels: node-only features, then edges."""

from matcha_gnn.evidence.goals import ACCURACY, Goal, Metric, Wanted
from matcha_gnn.evidence.posterior import Interval, Posterior, feature_shift, infer
from matcha_gnn.gamma.weights import fit_hop_weights

__all__ = [
    "ACCURACY",
    "Goal",
    "Interval",
    "Metric",
    "Posterior",
    "Wanted",
    "feature_shift",
    "fit_hop_weights",
    "infer",
]
