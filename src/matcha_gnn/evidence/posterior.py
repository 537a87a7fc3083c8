"""The class of every node, given its own features and its neighbours': a judge without labels."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from matcha_gnn.backbones import Backbone
from matcha_gnn.errors import IncompatibleError
from matcha_gnn.evidence.neighbours import fit_edge_shares, neighbour_evidence, sample_edges
from matcha_gnn.graph import Graph
from matcha_gnn.hops import joined
from matcha_gnn.mixture import OwnSample, OwnShift, explain, stride
from matcha_gnn.parts import WHOLE, Part, tensor_total
from matcha_gnn.typing import Probs

ROUNDS = 2
"""How often neighbours' evidence is passed on."""
MIN_SHARPNESS, MAX_SHARPNESS = 0.24, 8.1


@dataclass(frozen=True, eq=False)
class Posterior:
    """Probabilities of the true classes under a simple model of features and edges.

    Attributes:
        probs: by own features and neighbours, [N, C].
        own_probs: by own features alone, [N, C].
        shift: how own features moved between source and target.
        edge_shares: share of edges from a sender of class a to a receiver of class b, [C, C].
        sharpness: what own logits are multiplied by to make them log-probabilities.
        part: which nodes these are.
    """

    probs: Probs
    own_probs: Probs
    shift: OwnShift
    edge_shares: Tensor
    sharpness: float
    part: Part = WHOLE

    @property
    def homophily(self) -> float:
        """Estimated share of edges inside a class."""
        return float(self.edge_shares.diagonal().sum())

    def expected_accuracy(self, labels: Tensor) -> float:
        """Probability that a label [N] is true, averaged over nodes."""
        hits = self.probs.gather(1, labels[:, None].to(self.probs.device))
        (total,) = self.part.total(float(hits.sum()))
        return float(total) / self.part.count(len(hits))


@torch.no_grad()
def infer(model: Backbone, graph: Graph) -> Posterior:
    """Infer the classes of a target graph's nodes; labels are not read.

    Own logits become probabilities whose mean is the estimated class shares, and whose sharpness
    is that under which the two ends of an edge explain each other best. Then neighbours speak,
    `ROUNDS` times, through the class-to-class shares of edges estimated on the way.

    Raises:
        IncompatibleError: the model has no summary of its source.
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
    links = sample_edges(graph)
    ends = part.rows(logits, links.flatten()).view(*links.shape, logits.shape[1])
    fit = _sharpest(_Calibration(logits, shift.shares, ends, part))
    edge_shares, sharpness = fit.edge_shares, fit.sharpness
    evidence = sharpness * logits + fit.prior
    own_probs = probs = evidence.softmax(1)
    for _ in range(ROUNDS):
        probs = (evidence + neighbour_evidence(probs, edge_shares, graph)).softmax(1)
    return Posterior(probs, own_probs, shift, edge_shares.T, sharpness, part)


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
        return OwnSample(sample, torch.from_numpy(total).to(sample) / number, number)


class _Fit(NamedTuple):
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

    def at(self, sharpness: float) -> _Fit:
        prior = _matched(sharpness * self.logits, self.shares, self.part)
        senders, receivers = (sharpness * self.ends + prior).softmax(2)
        return _Fit(sharpness, prior, *fit_edge_shares(senders, receivers, self.shares))


def _sharpest(calibration: _Calibration) -> _Fit:
    """Climb from sharpness 1 in steps of √2 as long as edges are explained better."""
    best = calibration.at(1.0)
    for factor in (math.sqrt(2), math.sqrt(0.5)):
        start = best
        while MIN_SHARPNESS <= best.sharpness * factor <= MAX_SHARPNESS:
            trial = calibration.at(best.sharpness * factor)
            if trial.value <= best.value:
                break
            best = trial
        if best is not start:
            break
    return best


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
