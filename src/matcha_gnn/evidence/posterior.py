"""Class probabilities of every node from its features and its neighbours', without labels."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from matcha_gnn.backbones import Backbone
from matcha_gnn.errors import IncompatibleError, NoEvidenceError
from matcha_gnn.evidence.neighbours import SAMPLE, believe, fit_edge_shares
from matcha_gnn.evidence.shift_kinds import FeatureSample, FeatureShift, estimate_shift, stride
from matcha_gnn.graphs.base import BaseGraph
from matcha_gnn.graphs.memory import LocalGraph
from matcha_gnn.graphs.shards import WHOLE, Shard, tensor_total
from matcha_gnn.hops import joined
from matcha_gnn.typing import Probs

STEP = math.sqrt(2)
LOWEST, HIGHEST = -8, 3
"""Inverse temperatures from 1/16 to 2√2 times the source's are tried, in steps of √2."""
MAX_OVERCONFIDENCE = 0.05
"""By how much the mean confidence may exceed the model's accuracy on the source."""
LIKELIHOOD_DROP = 2.0
"""Log-likelihood below the best up to which another inverse temperature is an alternative."""


@dataclass(frozen=True, eq=False)
class Posterior:
    """Probabilities of the true classes under a simple model of features and edges.

    Attributes:
        probs: by node-only features and neighbours, [N, C].
        shift: how node-only features differ between source and target.
        edge_shares: share of edges from a sender of class a to a receiver of class b, [C, C].
        inverse_temperature: factor that makes node-only logits log-probabilities.
        alternatives: `probs` for each other inverse temperature that explains edges about as well,
            [N, C] each.
        rejected: why the estimate is rejected, or empty. Either only the largest inverse
            temperature explains the edges, or the mean confidence exceeds the model's accuracy on
            the source by more than `MAX_OVERCONFIDENCE`. Both happen where linked nodes are alike
            in more than their classes.
        shard: the shard of these nodes.
    """

    probs: Probs
    shift: FeatureShift
    edge_shares: Tensor
    inverse_temperature: float
    alternatives: tuple[Probs, ...]
    rejected: str
    shard: Shard = WHOLE

    @property
    def homophily(self) -> float:
        """Estimated share of edges inside a class."""
        return float(self.edge_shares.diagonal().sum())

    def expected_accuracy(self, labels: Tensor) -> float:
        """Probability that a label [N] is true, averaged over nodes."""
        return self._hits(self.probs, labels)

    def gain_lower_bound(self, labels: Tensor, over: Tensor) -> float:
        """Lower bound of the accuracy that labels [N] gain over others, over all alternatives."""
        every = (self.probs, *self.alternatives)
        return min(self._hits(probs, labels) - self._hits(probs, over) for probs in every)

    def _hits(self, probs: Probs, labels: Tensor) -> float:
        hits = probs.gather(1, labels[:, None].to(probs.device))
        (total,) = self.shard.total(float(hits.sum()))
        return float(total) / self.shard.count(len(hits))


@torch.no_grad()
def infer(model: Backbone, graph: BaseGraph) -> Posterior:
    """Infer the classes of a target graph's nodes; labels are not read.

    Node-only logits become probabilities whose mean is the estimated class shares, with the
    inverse temperature under which the edges are most likely. Evidence from neighbours is then
    added by belief propagation with the class-to-class shares of edges from that fit.

    Raises:
        IncompatibleError: the model has no source summary.
        NoEvidenceError: the node-only features or logits are not finite.
    """
    source = model.source
    if source is None:
        raise IncompatibleError(
            "the model has no source statistics, which are needed to estimate target accuracy"
        )
    shard, features = graph.shard, _NodeFeatures(model, graph)
    statistics = source.feature_statistics.to(graph.device)
    shift = estimate_shift(features.sample(), statistics, source.misfit)
    logits = joined([model.node_logits(u - shift.offset).double() for _, u in features])
    logits = logits - logits.mean(1, keepdim=True)
    _require_finite(logits, shard)
    links = graph.sample_links(SAMPLE, seed=0)
    ends = shard.rows(logits, links.flatten()).view(*links.shape, logits.shape[1])
    calibration = _Calibration(logits, shift.shares, ends, shard)
    # Classes that do not differ at all, or without any spread, have no inverse temperature.
    on_source = min(max(source.inverse_temperature, 1e-3), 1e3)
    fits = _plausible(calibration, on_source)
    best, *others = fits

    def believed(fit: _Fit) -> Probs:
        evidence = fit.inverse_temperature * logits + fit.prior
        return believe(evidence, fit.edge_shares, shift.shares, graph)

    probs = believed(best)
    (confidence,) = shard.total(float(probs.amax(1).sum()))
    excess = float(confidence) / shard.count(len(probs)) - float(source.accuracy)
    return Posterior(
        probs=probs,
        shift=shift,
        edge_shares=best.edge_shares.T,
        inverse_temperature=best.inverse_temperature,
        alternatives=tuple(map(believed, others)),
        rejected=_rejection(fits, excess),
        shard=shard,
    )


def _require_finite(values: Tensor, shard: Shard) -> None:
    (other,) = shard.total(float((~values.isfinite()).sum()))
    if other > 0:
        raise NoEvidenceError(
            "accuracy cannot be estimated: features of this graph overflow the model's precision"
        )


class _NodeFeatures:
    """Node-only features u block by block, [n, D] in float64; kept where there is one block."""

    def __init__(self, model: Backbone, graph: BaseGraph) -> None:
        self.model, self.graph, self._kept = model, graph, list[tuple[slice, Tensor]]()

    def __iter__(self) -> Iterator[tuple[slice, Tensor]]:
        if self._kept:
            yield from self._kept
            return
        for rows, block in self.graph.blocks():
            found = rows, self.model.node_features(block).double()
            if isinstance(self.graph, LocalGraph):
                self._kept = [found]
            yield found

    def sample(self) -> FeatureSample:
        """Every n-th of all nodes, and the mean."""
        shard = self.graph.shard
        number = shard.count(self.graph.num_nodes)
        every, sums, filled = stride(number), np.zeros(()), 0
        points: Tensor | None = None
        for rows, u in self:
            if points is None:
                # One buffer for all: many small ones would keep freed memory from the system.
                points = u.new_empty(-(-self.graph.num_nodes // every) + 1, u.shape[1])
            some = u[-(shard.start + rows.start) % every :: every]
            points[filled : filled + len(some)] = some
            filled += len(some)
            sums = sums + u.sum(0).cpu().numpy()
        assert points is not None
        (total,) = shard.total(sums)
        sample = shard.gather(points[:filled])
        _require_finite(sample, shard)
        return FeatureSample(sample, torch.from_numpy(total).to(sample) / number, number)


class _Fit(NamedTuple):
    """An inverse temperature, `STEP ** step` times the source's, and its log-likelihood."""

    step: int
    inverse_temperature: float
    prior: Tensor
    edge_shares: Tensor
    value: float


class _Calibration(NamedTuple):
    """Node-only logits [N, C], target class shares [C], and logits of edges' ends, [2, E, C]."""

    logits: Tensor
    shares: Tensor
    ends: Tensor
    shard: Shard

    def at(self, step: int, on_source: float) -> _Fit:
        factor = on_source * STEP**step
        prior = _matched(factor * self.logits, self.shares, self.shard)
        senders, receivers = (factor * self.ends + prior).softmax(2)
        edge_shares, gain = fit_edge_shares(senders, receivers, self.shares)
        # An edge is an observation of two nodes, and all nodes make half as many pairs.
        pairs = min(len(senders), self.shard.count(len(self.logits))) / 2
        return _Fit(step, factor, prior, edge_shares, gain * pairs)


def _plausible(calibration: _Calibration, on_source: float) -> list[_Fit]:
    """The most likely inverse temperature, and those that are about as likely.

    Searches upwards from the source's in steps of `STEP`, then on both sides of the maximum.
    """
    found: dict[int, _Fit] = {}

    def at(step: int) -> _Fit:
        if step not in found:
            found[step] = calibration.at(step, on_source)
        return found[step]

    top = 0
    for side in (-1, 1):
        while LOWEST <= top + side <= HIGHEST and at(top + side).value > at(top).value:
            top += side
    plausible = [at(top)]
    for side in (-1, 1):
        step = top + side
        while LOWEST <= step <= HIGHEST and at(step).value >= at(top).value - LIKELIHOOD_DROP:
            plausible.append(at(step))
            step += side
    return plausible


def _rejection(fits: list[_Fit], excess: float) -> str:
    if excess > MAX_OVERCONFIDENCE:
        return (
            f"the estimated accuracy exceeds the model's accuracy on the source by "
            f"{100 * excess:.1f} points, so the estimate is rejected"
        )
    if all(fit.step == HIGHEST for fit in fits):
        return (
            "the edges fit only if features separate the classes at least "
            f"{STEP**HIGHEST:.1f} times as well as on the source, so the estimate is rejected"
        )
    return ""


def _matched(logits: Tensor, shares: Tensor, shard: Shard) -> Tensor:
    """What to add to logits so that the mean prediction is `shares`, [C]."""
    added = torch.zeros_like(shares)
    for _ in range(50):
        mean = tensor_total(shard, (logits + added).softmax(1).sum(0)) / shard.count(len(logits))
        step = shares.log() - mean.clamp_min(1e-12).log()
        added = added + step
        if float(step.abs().max()) < 1e-4:
            break
    return added
