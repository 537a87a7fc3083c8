"""Class probabilities of every node from features, edges and network, without labels."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from matcha_gnn.errors import IncompatibleError, NoEvidenceError
from matcha_gnn.evidence.gathering import Gathered, gather
from matcha_gnn.evidence.node_features import sample_node_features
from matcha_gnn.evidence.shift_kinds import FeatureShift, estimate_shift, stride
from matcha_gnn.evidence.source import SourceEvidence
from matcha_gnn.evidence.summary import SourceSummary
from matcha_gnn.evidence.trust import UPWARD, Trust, trust
from matcha_gnn.evidence.weighing import BiasedPool, PoolWeights
from matcha_gnn.functional import class_softmax
from matcha_gnn.gamma.hops import joined
from matcha_gnn.gamma.models import Backbone
from matcha_gnn.graphs.base import BaseGraph
from matcha_gnn.graphs.shards import WHOLE, Shard
from matcha_gnn.kernels.devices import device_of
from matcha_gnn.typing import FloatArray, Probs

CLASS_ODDS = 1.5
"""By this factor the odds of any one class may be off; bounds hold for both."""
NORMAL_90 = 1.645
"""Standard deviations on each side that nine in ten normal draws stay within."""
_LEAST, _SCALES, _BISECTIONS = 1e-12, 6.0, 12
LEAST_INFORMATION = 0.15
"""Share of the entropy of the classes that must be known on the source: below it the estimate of
a gain rests on which classes are common, and that may have changed."""


class Interval(NamedTuple):
    """An estimate with bounds that hold nine times in ten.

    Attributes:
        value: the estimate.
        low: lower bound.
        high: upper bound.
    """

    value: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Posterior:
    """Probabilities of the true classes by features, edges and network.

    Attributes:
        probs: the pool of evidence and network, calibrated on the source, [N, C].
        gathered: evidence of nodes and edges.
        source: what the source has measured.
        shift: how the network's node features differ between source and target.
        shard: the shard of these nodes.
    """

    probs: Probs
    gathered: Gathered
    source: SourceEvidence
    shift: FeatureShift
    shard: Shard = WHOLE

    @property
    def edge_shares(self) -> Tensor:
        """Share of edges from a sender of class a to a receiver of class b, [C, C]."""
        return self.gathered.edge_shares.T

    @property
    def homophily(self) -> float:
        """Estimated share of edges inside a class."""
        return float(self.edge_shares.diagonal().sum())

    @property
    def belief(self) -> Probs:
        """Class probabilities by features and edges, without the network, [N, C]."""
        return self.gathered.weighted(self.source).exp()

    @cached_property
    def trust(self) -> Trust:
        """What an estimate may be off by because the model of the evidence is wrong here."""
        return trust(self.source, self.gathered, self.probs)

    @property
    def rejected(self) -> str:
        """Why no gain can be estimated, or empty."""
        known = float(self.source.information)
        if int(self.source.held_out) and known < LEAST_INFORMATION:
            return (
                "cannot tell: features, edges and network together explain "
                f"{max(0.0, known):.0%} of the classes of the source, and at least "
                f"{LEAST_INFORMATION:.0%} are needed to compare models without labels"
            )
        return self.trust.obstacle

    def expected_accuracy(self, labels: Tensor) -> float:
        """Probability that a label [N] is true, averaged over nodes."""
        return self._total(self._at(self.probs, labels)) / self._number

    def accuracy(self, labels: Tensor) -> Interval:
        """The same with bounds.

        They hold if the odds of a class are off by `CLASS_ODDS` in either direction, and contain
        the chance that labels of this many nodes have, the largest error that estimates had under
        simulated shifts of the source, and the error of the model (`trust`). The middle is lower
        by what estimates were too high on parts of the source.
        """
        number = self._number
        hits, spread, *bounds = self._sums(self._hits(self.probs, labels)) / number
        value, held = float(hits), int(self.source.held_out)
        variance = float(spread) / number + (value * (1 - value) / held if held else 0.0)
        around = NORMAL_90 * math.sqrt(max(variance, 0.0)) + self.source.estimate_error
        low = float(min(bounds)) - around - self.trust.error
        high = float(max(bounds)) + around + UPWARD * self.trust.error
        return Interval(max(value - self.trust.bias, 0.0), max(0.0, low), min(1.0, high))

    def gain(self, labels: Tensor, over: Tensor) -> Interval:
        """Accuracy that labels [N] gain over others, with bounds.

        Only nodes on which they differ count: what both have wrong does not make a difference.
        """
        differ = (labels != over).nonzero()[:, 0]
        probs, number = self.probs[differ], self._number
        new, old = self._at(probs, labels[differ]), self._at(probs, over[differ])
        value = self._total(new - old) / number
        variance = self._total(new + old - (new - old).square()) / number**2
        changed = self._total(torch.ones_like(new)) / number
        around = NORMAL_90 * math.sqrt(max(variance, 0.0)) + changed * self.trust.error
        more = perturbed_hits(probs, labels[differ]) - perturbed_hits(probs, over[differ])
        bounds = self._sums(more) / number
        return Interval(value, float(bounds.min()) - around, float(bounds.max()) + around)

    def _hits(self, probs: Probs, labels: Tensor) -> Tensor:
        """Sums over nodes of p, of p (1 − p), and of `perturbed_hits`, for the p of labels [N].

        In blocks that stay in the cache.
        """
        size = max(1, device_of(probs).block_floats // (32 * probs.shape[1]))
        sums = probs.new_zeros(2 + 2 * probs.shape[1])
        for some, given in zip(torch.split(probs, size), torch.split(labels, size), strict=True):
            hits = self._at(some, given)
            sums[0] += hits.sum()
            sums[1] += (hits * (1 - hits)).sum()
            sums[2:] += perturbed_hits(some, given)
        return sums

    def with_answer(self, network: Probs, answer: Probs) -> "Posterior":
        """The same where a base method answers otherwise than the network: either may be right.

        The network's log-probabilities are replaced by the mean of both, the base method's scaled
        to the same mean confidence: weights were learned for the network's.

        Args:
            network: class probabilities of the network itself, [N, C].
            answer: those of the base method around it, [N, C].
        """
        logs, other = (network_logs(p.to(self.probs)) for p in (network, answer))
        mean = (logs + _as_confident(other, logs)) / 2
        pool = _pool(self.source, self.gathered, class_softmax(mean))
        return replace(self, probs=pool)

    def pooled(self, network: Probs, pool: PoolWeights | BiasedPool) -> Tensor:
        """Log-probabilities by features, edges and network, [N, C], with other weights.

        Args:
            network: class probabilities of the network itself, [N, C].
            pool: the weights.
        """
        evidence = self.gathered.weighted(self.source)
        return pool.pool(evidence, network_logs(network).to(evidence))

    @property
    def _number(self) -> int:
        return self.shard.count(len(self.probs))

    def _total(self, values: Tensor) -> float:
        (total,) = self.shard.total(float(values.sum()))
        return float(total)

    def _sums(self, values: Tensor) -> FloatArray:
        (sums,) = self.shard.total(values.cpu().numpy())
        return sums

    @staticmethod
    def _at(probs: Probs, labels: Tensor) -> Tensor:
        return probs.gather(1, labels[:, None].to(probs.device))[:, 0]


def perturbed_hits(probs: Probs, labels: Tensor) -> Tensor:
    """Sums over nodes of the probability of labels [N] by each of `perturbed`, [2C].

    With odds of class k larger by f a probability p_l becomes p_l / (1 + (f − 1) p_k), and f times
    that where l is k.
    """
    labels = labels.to(probs.device)[:, None]
    own = labels == torch.arange(probs.shape[1], device=probs.device)
    hits, sums = probs.gather(1, labels), []
    for factor in (CLASS_ODDS, 1 / CLASS_ODDS):
        odds = torch.where(own, factor * hits, hits)
        sums.append((odds / (1 + (factor - 1) * probs)).sum(0))
    return torch.stack(sums, 1).flatten()


def perturbed(probs: Probs) -> Iterator[Probs]:
    """Probabilities where the odds of one class are larger or smaller, for each class."""
    for each in range(probs.shape[1]):
        for factor in (CLASS_ODDS, 1 / CLASS_ODDS):
            changed = probs.clone()
            changed[:, each] *= factor
            yield changed / changed.sum(1, keepdim=True)


@torch.no_grad()
def feature_shift(model: Backbone, graph: BaseGraph, classes: int) -> FeatureShift:
    """How the network's node features differ between source and target; no edge is looked at.

    Args:
        model: with a source summary.
        graph: the target.
        classes: C.

    Raises:
        IncompatibleError: the model has no source summary, or one of other features or classes.
        NoEvidenceError: features are not finite.
    """
    summary = _summary_of(model)
    summary.require(graph.num_features, classes)
    sample = sample_node_features(model, graph)
    _require_finite(sample.points, graph.shard)
    return estimate_shift(sample, summary.feature_statistics.to(graph.device), summary.misfit)


@torch.no_grad()
def infer(
    model: Backbone,
    graph: BaseGraph,
    network: Probs,
    logits: Tensor | None = None,
    shift: FeatureShift | None = None,
) -> Posterior:
    """Infer the classes of a target graph's nodes; labels are not read.

    Args:
        model: with a source summary.
        graph: the target.
        network: the model's own class probabilities there, [N, C].
        logits: of the probe, [N, C] in float64; computed from the features by default.
        shift: by `feature_shift`, where it is at hand.

    Raises:
        IncompatibleError: the model has no source summary.
        NoEvidenceError: it was made by an older version, or features are not finite.
    """
    summary = _summary_of(model)
    if summary.evidence is None:
        raise NoEvidenceError(
            "accuracy cannot be estimated: the source summary was made by an older version; "
            "mg.summarise_source(model, source_graph) makes a new one"
        )
    summary.require(graph.num_features, network.shape[1])
    source = summary.evidence.to(graph.device)
    if logits is None:
        probe = source.probe
        logits = joined([probe.logits(block.x) for _, block in graph.blocks()])
    _require_finite(logits, graph.shard)
    gathered = gather(source, logits, graph)
    shift = shift or feature_shift(model, graph, network.shape[1])
    return Posterior(_pool(source, gathered, network), gathered, source, shift, graph.shard)


def _summary_of(model: Backbone) -> SourceSummary:
    if model.source is None:
        raise IncompatibleError(
            "the model has no source statistics, which are needed to estimate target accuracy"
        )
    return model.source


def _pool(source: SourceEvidence, gathered: Gathered, network: Probs) -> Probs:
    """Class probabilities by features, edges and network, [N, C]."""
    evidence = gathered.weighted(source)
    return source.pool_weights.pool(evidence, network_logs(network.to(evidence))).exp()


def network_logs(network: Probs) -> Tensor:
    """Finite log-probabilities, [N, C]."""
    return network.clamp_min(_LEAST).log()


def _as_confident(logs: Tensor, like: Tensor) -> Tensor:
    """Log-probabilities [N, C] scaled to the mean confidence of others, by bisection."""
    some = slice(None, None, stride(len(logs)))
    wanted = float(class_softmax(like[some]).amax(1).mean())
    low, high = -_SCALES, _SCALES
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        sure = float(class_softmax(2.0**middle * logs[some]).amax(1).mean())
        low, high = (low, middle) if sure > wanted else (middle, high)
    scaled: Tensor = 2.0 ** ((low + high) / 2) * logs
    return scaled


def _require_finite(values: Tensor, shard: Shard) -> None:
    (other,) = shard.total(float((~values.isfinite()).sum()))
    if other > 0:
        raise NoEvidenceError(
            "accuracy cannot be estimated: features of this graph overflow the model's precision"
        )
