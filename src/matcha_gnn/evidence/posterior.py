"""The class of every node, given its own features and its neighbours': a judge without labels."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from matcha_gnn.backbones import Backbone
from matcha_gnn.errors import IncompatibleError
from matcha_gnn.evidence.neighbours import fit_edge_shares, neighbour_evidence, sample_edges
from matcha_gnn.graph import Graph
from matcha_gnn.mixture import OwnShift, explain
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
    """

    probs: Probs
    own_probs: Probs
    shift: OwnShift
    edge_shares: Tensor
    sharpness: float

    @property
    def homophily(self) -> float:
        """Estimated share of edges inside a class."""
        return float(self.edge_shares.diagonal().sum())

    def expected_accuracy(self, labels: Tensor) -> float:
        """Probability that a label [N] is true, averaged over nodes."""
        return float(self.probs.gather(1, labels[:, None].to(self.probs.device)).mean())


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
    own = model.own_features(graph).double()
    shift = explain(own, source.own_statistics.to(own.device), source.misfit)
    logits = model.own_logits(own - shift.offset).double()
    logits = logits - logits.mean(1, keepdim=True)
    shares, links = shift.shares, sample_edges(graph.edge_index)
    fit = _sharpest(_Calibration(logits, shares, links))
    edge_shares, sharpness = fit.edge_shares, fit.sharpness
    evidence = sharpness * logits + fit.prior
    own_probs = probs = evidence.softmax(1)
    for _ in range(ROUNDS):
        probs = (evidence + neighbour_evidence(probs, edge_shares, graph.edge_index)).softmax(1)
    return Posterior(probs, own_probs, shift, edge_shares.T, sharpness)


class _Fit(NamedTuple):
    sharpness: float
    prior: Tensor
    edge_shares: Tensor
    value: float


class _Calibration(NamedTuple):
    """Own logits [N, C], the shares they should have [C], and the edges they should explain."""

    logits: Tensor
    shares: Tensor
    links: Tensor

    def at(self, sharpness: float) -> _Fit:
        logits = sharpness * self.logits
        prior = _matched(logits, self.shares)
        probs = (logits + prior).softmax(1)
        return _Fit(sharpness, prior, *fit_edge_shares(probs, self.shares, self.links))


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


def _matched(logits: Tensor, shares: Tensor) -> Tensor:
    """What to add to logits so that the mean prediction is `shares`, [C]."""
    added = torch.zeros_like(shares)
    for _ in range(50):
        step = shares.log() - (logits + added).softmax(1).mean(0).clamp_min(1e-12).log()
        added = added + step
        if float(step.abs().max()) < 1e-4:
            break
    return added
