"""Step 7: what adaptation returns: predictions, model, decision, trace, status."""

from matcha_gnn.gamma.trace import Trace
from matcha_gnn.result.adaptation import Adaptation
from matcha_gnn.result.alarms import Severity
from matcha_gnn.result.decision import UNKNOWN, Candidate, ClassScores, Decision, estimate
from matcha_gnn.result.status import Status, class_counts_of, outcome

__all__ = [
    "UNKNOWN",
    "Adaptation",
    "Candidate",
    "ClassScores",
    "Decision",
    "Severity",
    "Status",
    "Trace",
    "class_counts_of",
    "estimate",
    "outcome",
]
