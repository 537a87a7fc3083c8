"""The class of every node, given its own features and its neighbours': a judge without labels."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from matcha_gnn.backbones import Backbone
from matcha_gnn.errors import IncompatibleError, NoEvidenceError
from matcha_gnn.evidence.neighbours import believe, fit_edge_shares, sample_edges
from matcha_gnn.evidence.shift_kinds import OwnSample, OwnShift, explain, stride
from matcha_gnn.graphs.memory import Graph
from matcha_gnn.graphs.parts import WHOLE, Part, tensor_total
from matcha_gnn.hops import joined
from matcha_gnn.typing import Probs

STEP = math.sqrt(2)
LOWEST, HIGHEST = -8, 3
"""Own evidence is sought from 1/16 to 2√2 times as sharp as on the source, in steps of √2."""
SURER_THAN_SOURCE = 0.05
"""By how much the mean confidence may exceed the model's accuracy on the source."""
DOUBT = 2.0
"""Log-likelihood below the best up to which another sharpness is as good."""


@dataclass(frozen=True, eq=False)
class Posterior:
    """Probabilities of the true classes under a simple model of features and edges.

    Attributes:
        probs: by own features and neighbours, [N, C].
        shift: how own features moved between source and target.
        edge_shares: share of edges from a sender of class a to a receiver of class b, [C, C].
        sharpness: what own logits are multiplied by to make them log-probabilities.
        doubts: `probs` for each other sharpness that explains edges about as well, [N, C] each.
        contradiction: why the estimate is rejected, or empty. Either no sharpness but the largest
            that is sought explains the edges, or the mean confidence exceeds the model's accuracy
            on the source by more than `SURER_THAN_SOURCE`. Both happen where linked nodes are
            alike in more than their classes.
        part: which nodes these are.
    """

    probs: Probs
    shift: OwnShift
    edge_shares: Tensor
    sharpness: float
    doubts: tuple[Probs, ...]
    contradiction: str
    part: Part = WHOLE

    @property
    def contradicted(self) -> bool:
        """Whether the estimate is rejected."""
        return bool(self.contradiction)

    @property
    def homophily(self) -> float:
        """Estimated share of edges inside a class."""
        return float(self.edge_shares.diagonal().sum())

    def expected_accuracy(self, labels: Tensor) -> float:
        """Probability that a label [N] is true, averaged over nodes."""
        return self._hits(self.probs, labels)

    def least_gain(self, labels: Tensor, over: Tensor) -> float:
        """By how much labels [N] are expected to be better than others, whichever doubt holds."""
        every = (self.probs, *self.doubts)
        return min(self._hits(probs, labels) - self._hits(probs, over) for probs in every)

    def _hits(self, probs: Probs, labels: Tensor) -> float:
        hits = probs.gather(1, labels[:, None].to(probs.device))
        (total,) = self.part.total(float(hits.sum()))
        return float(total) / self.part.count(len(hits))


@torch.no_grad()
def infer(model: Backbone, graph: Graph) -> Posterior:
    """Infer the classes of a target graph's nodes; labels are not read.

    Own logits become probabilities whose mean is the estimated class shares, and whose sharpness
    is that under which the two ends of an edge explain each other best. Then neighbours speak
    through the class-to-class shares of edges estimated on the way.

    Raises:
        IncompatibleError: the model has no summary of its source.
        NoEvidenceError: what the model makes of the nodes' features is not finite.
    """
    source = model.source
    if source is None:
        raise IncompatibleError(
            "the model has no summary of its source graph, without which nothing can be judged"
        )
    part, own = graph.part, _OwnFeatures(model, graph)
    shift = explain(own.sample(), source.own_statistics.to(graph.device), source.misfit)
    logits = joined([model.own_logits(each - shift.offset).double() for _, each in own])
    logits = logits - logits.mean(1, keepdim=True)
    _require_finite(logits, part)
    links = sample_edges(graph)
    ends = part.rows(logits, links.flatten()).view(*links.shape, logits.shape[1])
    calibration = _Calibration(logits, shift.shares, ends, part)
    # Classes that do not differ at all, or without any spread, have no sharpness of their own.
    on_source = min(max(source.own_sharpness, 1e-3), 1e3)
    fits = _plausible(calibration, on_source)
    best, *others = fits

    def believed(fit: _Fit) -> Probs:
        evidence = fit.sharpness * logits + fit.prior
        return believe(evidence, fit.edge_shares, shift.shares, graph)

    probs = believed(best)
    (sure,) = part.total(float(probs.amax(1).sum()))
    surer = float(sure) / part.count(len(probs)) - float(source.accuracy)
    return Posterior(
        probs=probs,
        shift=shift,
        edge_shares=best.edge_shares.T,
        sharpness=best.sharpness,
        doubts=tuple(map(believed, others)),
        contradiction=_contradiction(fits, surer),
        part=part,
    )


def _require_finite(values: Tensor, part: Part) -> None:
    (other,) = part.total(float((~values.isfinite()).sum()))
    if other > 0:
        raise NoEvidenceError("features of this graph overflow the model's precision")


class _OwnFeatures:
    """u piece by piece, [n, D] in float64; kept where the graph is one piece."""

    def __init__(self, model: Backbone, graph: Graph) -> None:
        self.model, self.graph, self._kept = model, graph, list[tuple[slice, Tensor]]()

    def __iter__(self) -> Iterator[tuple[slice, Tensor]]:
        if self._kept:
            yield from self._kept
            return
        for rows, piece in self.graph.pieces():
            own = rows, self.model.own_features(piece).double()
            if self.graph.one_piece:
                self._kept = [own]
            yield own

    def sample(self) -> OwnSample:
        """Every n-th of all nodes, and the mean."""
        part = self.graph.part
        number = part.count(self.graph.num_nodes)
        every, sums, filled = stride(number), np.zeros(()), 0
        points: Tensor | None = None
        for rows, own in self:
            if points is None:
                # One place for all: many small ones would keep freed memory from the system.
                points = own.new_empty(-(-self.graph.num_nodes // every) + 1, own.shape[1])
            some = own[-(part.start + rows.start) % every :: every]
            points[filled : filled + len(some)] = some
            filled += len(some)
            sums = sums + own.sum(0).cpu().numpy()
        assert points is not None
        (total,) = part.total(sums)
        sample = part.gather(points[:filled])
        _require_finite(sample, part)
        return OwnSample(sample, torch.from_numpy(total).to(sample) / number, number)


class _Fit(NamedTuple):
    """One sharpness, and how well it explains edges: a log-likelihood.

    It is `STEP ** step` times the source's.
    """

    step: int
    sharpness: float
    prior: Tensor
    edge_shares: Tensor
    value: float


class _Calibration(NamedTuple):
    """Own logits [N, C], the shares they should have [C], and those of edges' ends, [2, E, C]."""

    logits: Tensor
    shares: Tensor
    ends: Tensor
    part: Part

    def at(self, step: int, on_source: float) -> _Fit:
        sharpness = on_source * STEP**step
        prior = _matched(sharpness * self.logits, self.shares, self.part)
        senders, receivers = (sharpness * self.ends + prior).softmax(2)
        edge_shares, gain = fit_edge_shares(senders, receivers, self.shares)
        # An edge is an observation of two nodes, and all nodes make half as many pairs.
        pairs = min(len(senders), self.part.count(len(self.logits))) / 2
        return _Fit(step, sharpness, prior, edge_shares, gain * pairs)


def _plausible(calibration: _Calibration, on_source: float) -> list[_Fit]:
    """The sharpness that explains edges best, and those that do about as well.

    Climbs from the source's in steps of `STEP`, then looks to both sides of the summit.
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
        while LOWEST <= step <= HIGHEST and at(step).value >= at(top).value - DOUBT:
            plausible.append(at(step))
            step += side
    return plausible


def _contradiction(fits: list[_Fit], surer: float) -> str:
    if surer > SURER_THAN_SOURCE:
        return (
            f"the estimated accuracy exceeds the model's accuracy on the source by "
            f"{100 * surer:.1f} points, so the estimate is rejected"
        )
    if all(fit.step == HIGHEST for fit in fits):
        return (
            f"linked nodes agree more than {STEP**HIGHEST:.1f} times as strongly as features on "
            "the source tell classes apart, so the estimate is rejected"
        )
    return ""


def _matched(logits: Tensor, shares: Tensor, part: Part) -> Tensor:
    """What to add to logits so that the mean prediction is `shares`, [C]."""
    added = torch.zeros_like(shares)
    for _ in range(50):
        mean = tensor_total(part, (logits + added).softmax(1).sum(0)) / part.count(len(logits))
        step = shares.log() - mean.clamp_min(1e-12).log()
        added = added + step
        if float(step.abs().max()) < 1e-4:
            break
    return added
