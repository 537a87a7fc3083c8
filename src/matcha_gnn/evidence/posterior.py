"""Class probabilities of every node from features, edges and network, without labels."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from matcha_gnn.errors import NoEvidenceError
from matcha_gnn.evidence.gathering import Gathered, gather
from matcha_gnn.evidence.summary import SourceEvidence, SourceSummary
from matcha_gnn.evidence.trust import UPWARD, Trust, trust_in
from matcha_gnn.evidence.weighing import BiasedPool, PoolWeights
from matcha_gnn.graphs.memory import Graph
from matcha_gnn.kernels.devices import device_of
from matcha_gnn.typing import FloatArray, Probs

CLASS_ODDS = 1.5
"""By this factor the odds of any one class may be off; bounds hold for both."""
NORMAL_90 = 1.645
"""Standard deviations on each side that nine in ten normal draws stay within."""
_LEAST = 1e-12
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
    """

    probs: Probs
    gathered: Gathered
    source: SourceEvidence

    @property
    def edge_shares(self) -> Tensor:
        """Share of edges from a sender of class a to a receiver of class b, [C, C]."""
        return self.gathered.edge_shares.T

    @property
    def homophily(self) -> float:
        """Estimated share of edges inside a class."""
        return float(self.edge_shares.diagonal().sum())

    @cached_property
    def evidence(self) -> Tensor:
        """Log-probabilities by features and edges, without the network, [N, C]."""
        return self.gathered.weighted(self.source)

    @property
    def belief(self) -> Probs:
        """The same as class probabilities, [N, C]."""
        return self.evidence.exp()

    @cached_property
    def trust(self) -> Trust:
        """What an estimate may be off by because the model of the evidence is wrong here."""
        return trust_in(self.source, self.gathered, self.probs)

    @property
    def rejected(self) -> str:
        """Why no gain can be estimated, or empty."""
        return rejection(self.source) or self.trust.obstacle

    def expected_accuracy(self, labels: Tensor) -> float:
        """Probability that a label [N] is true, averaged over nodes."""
        return float(self._at(self.probs, labels).sum()) / len(self.probs)

    def accuracy(self, labels: Tensor) -> Interval:
        """The same with bounds.

        They hold if the odds of a class are off by `CLASS_ODDS` in either direction, and contain
        the chance that labels of this many nodes have, the largest error that estimates had under
        simulated shifts of the source, and the error of the model (`trust`). The middle is lower
        by what estimates were too high on parts of the source. The upper bound is at least what
        features and edges say without the network, which may be wrong here with confidence.
        """
        sums = self.hit_sums(self.probs, labels).cpu().numpy()
        believed = float(self._at(self.evidence, labels).exp().sum())
        return accuracy_of(sums, believed, len(self.probs), self.source, self.trust)

    def gain(self, labels: Tensor, over: Tensor) -> Interval:
        """Accuracy that labels [N] gain over others, with bounds.

        Only nodes on which they differ count: what both have wrong does not make a difference.
        """
        differ = (labels != over).nonzero()[:, 0]
        probs, number = self.probs[differ], len(self.probs)
        new, old = self._at(probs, labels[differ]), self._at(probs, over[differ])
        more = perturbed_hits(probs, labels[differ]) - perturbed_hits(probs, over[differ])
        spread = float((new + old - (new - old).square()).sum())
        changed, sums = len(differ), more.cpu().numpy()
        return gain_of(float((new - old).sum()), spread, sums, changed, number, self.trust)

    @staticmethod
    def hit_sums(probs: Probs, labels: Tensor) -> Tensor:
        """Sums over nodes of p, of p (1 − p), and of `perturbed_hits`, for the p of labels [N].

        In blocks that stay in the cache.
        """
        size = max(1, device_of(probs).block_floats // (32 * probs.shape[1]))
        sums = probs.new_zeros(2 + 2 * probs.shape[1])
        for some, given in zip(torch.split(probs, size), torch.split(labels, size), strict=True):
            hits = Posterior._at(some, given)
            sums[0] += hits.sum()
            sums[1] += (hits * (1 - hits)).sum()
            sums[2:] += perturbed_hits(some, given)
        return sums

    def pooled(self, network: Probs, pool: PoolWeights | BiasedPool) -> Tensor:
        """Log-probabilities by features, edges and network, [N, C], with other weights.

        Args:
            network: class probabilities of the network itself, [N, C].
            pool: the weights.
        """
        return pool.pool(self.evidence, network_logs(network).to(self.evidence))

    @staticmethod
    def _at(probs: Probs, labels: Tensor) -> Tensor:
        return probs.gather(1, labels[:, None].to(probs.device))[:, 0]


def rejection(source: SourceEvidence) -> str:
    """Why no gain can be estimated with such a source, or empty."""
    known = float(source.information)
    if int(source.held_out) and known < LEAST_INFORMATION:
        return (
            "cannot tell: features, edges and network together explain "
            f"{max(0.0, known):.0%} of the classes of the source, and at least "
            f"{LEAST_INFORMATION:.0%} are needed to compare models without labels"
        )
    return ""


def accuracy_of(
    sums: FloatArray, believed: float, number: int, source: SourceEvidence, trust: Trust
) -> Interval:
    """`Posterior.accuracy` from sums over nodes.

    Args:
        sums: by `Posterior.hit_sums`, [2 + 2C].
        believed: sum of the probabilities of the labels by features and edges alone.
        number: N.
        source: what the source has measured.
        trust: what the estimate may be off by.
    """
    hits, spread, *bounds = sums / number
    value, held = float(hits), int(source.held_out)
    variance = float(spread) / number + (value * (1 - value) / held if held else 0.0)
    around = NORMAL_90 * math.sqrt(max(variance, 0.0)) + source.estimate_error
    low = float(min(bounds)) - around - trust.error
    high = max(float(max(bounds)) + around + UPWARD * trust.error, believed / number)
    return Interval(max(value - trust.bias, 0.0), max(0.0, low), min(1.0, high))


def gain_of(
    gained: float,
    spread: float,
    perturbed: FloatArray,
    changed: int,
    number: int,
    trust: Trust,
) -> Interval:
    """`Posterior.gain` from sums over the nodes where labels differ.

    Args:
        gained: of p_new − p_old, the probabilities of both labels.
        spread: of p_new + p_old − (p_new − p_old)².
        perturbed: what `perturbed_hits` is more by for the new labels, [2C].
        changed: nodes where labels differ.
        number: N, of all nodes.
        trust: what estimates may be off by.
    """
    around = NORMAL_90 * math.sqrt(max(spread / number**2, 0.0)) + changed / number * trust.error
    bounds = perturbed / number
    return Interval(gained / number, float(bounds.min()) - around, float(bounds.max()) + around)


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
def infer(
    summary: SourceSummary, graph: Graph, network: Probs, logits: Tensor | None = None
) -> Posterior:
    """Infer the classes of a target graph's nodes; labels are not read.

    Args:
        summary: of the source.
        graph: the target.
        network: the network's class probabilities there, [N, C].
        logits: of the probe, [N, C] in float64; computed from the features by default.

    Raises:
        IncompatibleError: the summary is of other features or classes.
        NoEvidenceError: features are not finite.
    """
    summary.require(graph.num_features, network.shape[1])
    source = summary.evidence.to(graph.device)
    if logits is None:
        logits = source.probe.logits(graph.x)
    require_finite_logits(logits)
    gathered = gather(source, logits, graph)
    evidence = gathered.weighted(source)
    pool = source.pool_weights.pool(evidence, network_logs(network.to(evidence)))
    return Posterior(pool.exp(), gathered, source)


def network_logs(network: Probs) -> Tensor:
    """Finite log-probabilities, [N, C]."""
    return network.clamp_min(_LEAST).log()


def require_finite_logits(values: Tensor) -> None:
    """Raise NoEvidenceError for features that overflow."""
    if not values.isfinite().all():
        raise NoEvidenceError(
            "accuracy cannot be estimated: features of this graph overflow the model's precision"
        )
