"""How a target graph differs from the source, and whether to adapt; labels are not read."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from matcha_gnn.adaptation import run_adaptation, wanted_by
from matcha_gnn.errors import IncompatibleError, NoEvidenceError
from matcha_gnn.evidence.given import Source
from matcha_gnn.evidence.goals import ACCURACY, Metric
from matcha_gnn.evidence.posterior import Interval
from matcha_gnn.evidence.shift_kinds import ShiftKind
from matcha_gnn.evidence.summary import CONFIDENCE_BINS, SourceSummary
from matcha_gnn.gamma.methods import ERM, BaseMethod
from matcha_gnn.gamma.models import Backbone, Loader, MovableBackbone
from matcha_gnn.gamma.strategies import Guarded
from matcha_gnn.graphs.memory import GraphLike
from matcha_gnn.kernels.contexts import plain_torch
from matcha_gnn.metrics import average_degree
from matcha_gnn.result import Adaptation, Decision

ADAPT, LEAVE = "adapt", "leave it"
MEND_FEATURES = "adapt with Tent or T3A (attribute shift)"
CHECK_FEATURES = "check the features"


@dataclass(frozen=True, eq=False)
class AccuracyEstimate:
    """How right a model is expected to be on a graph without labels.

    Attributes:
        value: expected share of labels that are true; NaN where it cannot be told.
        low: lower bound that holds nine times in ten.
        high: upper bound.
        per_class: expected share of true labels among nodes that are given each class, [C]; NaN
            for a class that no node is given.
        reason: why it cannot be told, or empty.
    """

    value: float
    low: float
    high: float
    per_class: Tensor
    reason: str = ""

    def __repr__(self) -> str:
        """One line."""
        if self.reason:
            return f"AccuracyEstimate({self.reason})"
        return f"AccuracyEstimate({self.value:.1%}, 90% interval {self.low:.1%} to {self.high:.1%})"


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """The shift card. Pairs are (source, target); those of the target are estimates.

    Attributes:
        degree: average incoming degree.
        homophily: share of edges inside a class.
        class_edges: share of edges from class a to class b, [C, C] each.
        class_shares: [C] each.
        features: how node-only features differ from the source's.
        drift: length of their offset, in standard deviations within classes.
        confidence: mean largest probability of the source model.
        expected_accuracy: of the source model and of the best candidate, on the target; NaN where
            it cannot be estimated.
        estimate: of the source model's accuracy on the target, with its interval and per class.
        metric: what was asked for, such as "accuracy" or "F1 of fraud".
        expected: that metric of the source model and of the best candidate by it, each with its 90%
            interval.
        advice: "adapt", "adapt with Tent or T3A (attribute shift)", "leave it", or "check the
            features" where they cannot be what the source's are.
        reason: one sentence.
    """

    degree: tuple[float, float]
    homophily: tuple[float, float]
    class_edges: tuple[Tensor, Tensor]
    class_shares: tuple[Tensor, Tensor]
    features: ShiftKind
    drift: float
    confidence: tuple[float, float]
    expected_accuracy: tuple[float, float]
    estimate: AccuracyEstimate
    metric: str
    expected: tuple[Interval, Interval]
    advice: str
    reason: str


@plain_torch()
def diagnose(
    model: Backbone | nn.Module,
    graph: GraphLike,
    *,
    source: Source | None = None,
    metric: str | Metric = ACCURACY.name,
    positive: int | str | None = None,
    classes: Sequence[str] | None = None,
    loader: Loader | None = None,
) -> Diagnosis:
    """Compare a target graph with the source that a model was trained on.

    Args:
        model: a trained model, or any PyG network as it is.
        graph: the target; labels are not read.
        source: of the model, where it does not carry it; see `adapt`.
        metric: what the advice is decided by; see `adapt`.
        positive: the class that it is of; see `adapt`.
        classes: names of the classes; see `adapt`.
        loader: through which a network runs; see `adapt`.

    Raises:
        IncompatibleError: the model has no source summary.
        NoEvidenceError: accuracy cannot be estimated on this graph.

    Example:
        >>> import matcha_gnn as mg
        >>> source = mg.datasets.csbm(1000, 64, homophily=0.9, signal=2, seed=0)
        >>> target = mg.datasets.csbm(1000, 64, homophily=0.1, signal=2, seed=1)
        >>> model = mg.GPRGNN(64, 2)
        >>> _ = mg.fit(model, source, epochs=50)
        >>> card = mg.diagnose(model, target)
        >>> card.advice, [round(h, 1) for h in card.homophily]
        ('adapt', [0.9, 0.1])
    """
    wanted = wanted_by(metric, positive, classes, graph)
    result = run_adaptation(
        model, graph, ERM(), Guarded(), source=source, wanted=wanted, loader=loader
    )
    summary, decision = result.model.source, result.decision
    if summary is None or decision is None or decision.stood_in:
        raise IncompatibleError(
            "diagnose needs a source summary: give source=mg.summarise_source(model, "
            "source_graph), or train the model with mg.fit"
        )
    return shift_card(model, summary, result, decision)


def shift_card(
    model: Backbone | nn.Module, summary: SourceSummary, result: Adaptation, decision: Decision
) -> Diagnosis:
    """The shift card of a result that is at hand.

    Args:
        model: what was adapted.
        summary: of its source.
        result: what was predicted there.
        decision: made by evidence.

    Raises:
        NoEvidenceError: accuracy could not be estimated on this graph.
    """
    if decision.posterior is None:
        raise NoEvidenceError(decision.obstacle)
    posterior, target = decision.posterior, result.graph
    shift = posterior.shift
    expected = [c.expected_accuracy for c in decision.candidates] or [math.nan]
    goals = [c.goal for c in decision.candidates] or [Interval(math.nan, math.nan, math.nan)]
    middles = (torch.arange(CONFIDENCE_BINS) + 0.5) / CONFIDENCE_BINS
    advice = LEAVE
    movable = isinstance(model, MovableBackbone) and model.takes_offset
    if decision.broken:
        advice = CHECK_FEATURES
    elif decision.adapted:
        advice = ADAPT
    elif shift.kind.moves_offset and not movable:
        advice = MEND_FEATURES
    return Diagnosis(
        degree=(
            float(summary.mean_degree),
            average_degree(target.edge_index, target.num_nodes),
        ),
        homophily=(summary.edge_homophily, posterior.homophily),
        class_edges=(summary.class_edges, posterior.edge_shares.cpu().float()),
        class_shares=(summary.class_prior, posterior.probs.mean(0).cpu().float()),
        features=shift.kind,
        drift=_length(shift.offset.cpu(), summary.node_covariance.double()),
        confidence=(
            float(summary.confidence_histogram @ middles),
            float(result.probs_before.amax(1).double().mean()),
        ),
        expected_accuracy=(expected[0], max(expected)),
        estimate=_estimated(result),
        metric=decision.goal.title,
        expected=(goals[0], max(goals, key=lambda goal: goal.value)),
        advice=advice,
        reason=decision.summary(),
    )


@plain_torch()
def estimate_accuracy(
    model: Backbone | nn.Module,
    graph: GraphLike,
    method: BaseMethod | str = ERM(),  # noqa: B008 (immutable)
    *,
    source: Source | None = None,
    loader: Loader | None = None,
) -> AccuracyEstimate:
    """Estimate how many labels of a model are right on a graph, without labels.

    Args:
        model: a trained model, or any PyG network as it is.
        graph: the target; labels are not read.
        method: the base method whose labels are meant, or its name.
        source: of the model, where it does not carry it; see `adapt`.
        loader: through which a network runs; see `adapt`.

    Example:
        >>> import matcha_gnn as mg
        >>> source = mg.datasets.csbm(1000, 64, homophily=0.9, signal=2, seed=0)
        >>> target = mg.datasets.csbm(1000, 64, homophily=0.1, signal=2, seed=1)
        >>> model = mg.GPRGNN(64, 2)
        >>> _ = mg.fit(model, source, epochs=50)
        >>> found = mg.estimate_accuracy(model, target)
        >>> truth = float((mg.predict(model, target).labels == target.y).double().mean())
        >>> found.low <= truth <= found.high
        True
    """
    nothing_tried = Guarded(strategies=())
    result = run_adaptation(model, graph, method, nothing_tried, source=source, loader=loader)
    return _estimated(result)


def _estimated(result: Adaptation) -> AccuracyEstimate:
    """The accuracy of the labels before adaptation, from the evidence that a result has."""
    decision, labels = result.decision, result.labels_before
    nothing = torch.full((result.probs.shape[1],), math.nan)
    if decision is None or decision.posterior is None or decision.obstacle:
        reason = decision.obstacle if decision else ""
        return AccuracyEstimate(math.nan, 0.0, 1.0, nothing, reason)
    if decision.stood_in:
        reason = "accuracy cannot be estimated without statistics of the source graph"
        return AccuracyEstimate(math.nan, 0.0, 1.0, nothing, reason)
    posterior = decision.posterior
    found = posterior.accuracy(labels)
    hits = posterior.probs.gather(1, labels[:, None].to(posterior.probs.device))[:, 0].cpu()
    counts = torch.bincount(labels.cpu(), minlength=len(nothing))
    sums = torch.zeros(len(nothing), dtype=hits.dtype).index_add_(0, labels.cpu(), hits)
    return AccuracyEstimate(found.value, found.low, found.high, (sums / counts).float())


def _length(offset: Tensor, covariance: Tensor) -> float:
    """Mahalanobis length of an offset."""
    values, axes = torch.linalg.eigh(covariance)
    floor = float(1e-6 * covariance.trace() / len(covariance) + 1e-12)
    return float((offset.double() @ axes / values.clamp_min(floor).sqrt()).norm())
