"""A candidate that questions add to those of the default, with what is expected of it."""

import math

from matcha_gnn.evidence import Interval
from matcha_gnn.evidence.goals import Goal, expected_confusion
from matcha_gnn.evidence.posterior import Posterior
from matcha_gnn.evidence.rating import rater_of
from matcha_gnn.gamma.models import Backbone
from matcha_gnn.result import Candidate
from matcha_gnn.typing import Probs

_UNKNOWN = Interval(math.nan, math.nan, math.nan)


def further_candidate(
    name: str,
    model: Backbone,
    probs: Probs,
    source: Candidate,
    evidence: Posterior | None,
    goal: Goal,
) -> Candidate:
    """A candidate, rated as those of the default are.

    Args:
        name: what it is called.
        model: that answers so.
        probs: its class probabilities, [N, C].
        source: the source model and its predictions.
        evidence: of the classes; None where it is not to be believed.
        goal: the metric that candidates are compared by.
    """
    labels, before = probs.argmax(1), source.probs.argmax(1).to(probs.device)
    changed = float((labels != before).double().mean())
    if evidence is None or bool(evidence.source.stand_in):
        return Candidate(name, _UNKNOWN, _UNKNOWN, _UNKNOWN, changed, probs, model.frozen())
    rater = rater_of(goal, evidence)
    rated = rater.rate(probs)
    return Candidate(
        name,
        evidence.accuracy(labels),
        rater.value(rated),
        rater.gain(rated, rater.rate(source.probs)),
        changed,
        probs,
        model.frozen(),
        expected_confusion(labels, evidence.probs).cpu(),
    )
