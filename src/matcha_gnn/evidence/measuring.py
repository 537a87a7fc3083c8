"""Measure on a labelled source graph how far its features, its edges and the network are right."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from scipy.optimize import minimize
from scipy.special import log_softmax
from torch import Tensor

from matcha_gnn.backbones import Backbone
from matcha_gnn.evidence.gathering import Gathered, gather
from matcha_gnn.evidence.neighbours import SAMPLE
from matcha_gnn.evidence.probe import fit_probe
from matcha_gnn.evidence.shift_kinds import (
    FeatureStatistics,
    class_statistics,
    discriminant,
    fit_mixture,
    misfit,
)
from matcha_gnn.evidence.simulated import simulated_shifts
from matcha_gnn.evidence.source import SourceEvidence
from matcha_gnn.graphs.memory import Graph
from matcha_gnn.typing import FloatArray

MOST = 20_000
"""Nodes on which weights are fitted."""
EQUAL, EQUAL_NODES = (0.5, 0.5), 20.0
"""Weights of evidence and network where no node shows how right the network is, and how strongly
weights are drawn to them: as by so many nodes for each squared unit of distance."""


class Known(NamedTuple):
    """Which labels of a source graph are known, and to whom.

    Attributes:
        labels: classes, [N]; read at the nodes below only.
        labelled: bool [N].
        held_out: labelled nodes that the network was not trained on, bool [N].
    """

    labels: Tensor
    labelled: Tensor
    held_out: Tensor


@torch.no_grad()
def measure_evidence(
    model: Backbone, graph: Graph, known: Known, classes: int, seed: int = 0
) -> SourceEvidence:
    """Fit the probe, and learn on simulated shifts how to weigh node, edges and network.

    Args:
        model: the trained network; it runs once per simulated shift.
        graph: the source.
        known: its labels. Without held-out nodes network and evidence count alike.
        classes: C.
        seed: of folds and simulated shifts.
    """
    fit = fit_probe(graph.x, known.labels, known.labelled, classes, seed)
    logits = fit.logits.to(graph.device)
    centred = logits - logits.mean(1, keepdim=True)
    found = _statistics(centred, graph, known, classes)
    found = replace(found, probe_weight=fit.probe.weight, probe_bias=fit.probe.bias)
    shifts = _simulated(model, graph, known, found, logits, seed)
    return _weighed(found, shifts, known)


def _statistics(centred: Tensor, graph: Graph, known: Known, classes: int) -> SourceEvidence:
    """Of the probe's logits; weights are those of evidence that is right as it is."""
    labels, labelled = known.labels, known.labelled
    members = torch.nn.functional.one_hot(labels[labelled], classes).double()
    counts = members.sum(0)
    shares = (counts + 0.5) / (counts + 0.5).sum()
    centroids, covariance = class_statistics(centred[labelled], members)
    centroids[counts == 0] = (counts / counts.sum()) @ centroids
    statistics = FeatureStatistics(centroids, covariance, shares)
    points, means = discriminant(centred[labelled], statistics)
    centre = shares @ means
    mixture = fit_mixture(points - centre, means - centre, shares, False, False)
    return SourceEvidence(
        probe_weight=centroids.new_zeros(0, classes),
        probe_bias=centroids.new_zeros(classes),
        shares=shares,
        centroids=centroids,
        covariance=covariance,
        misfit=misfit(centred[labelled], statistics),
        class_distance=torch.tensor(mixture.scale),
        residual_correlation=torch.tensor(_residual_correlation(centred, graph, known, statistics)),
        evidence_weights=torch.ones(2),
        pool_weights=torch.tensor(EQUAL),
        information=torch.tensor(0.0),
        simulated=torch.zeros(0, 4, 2),
        held_out=known.held_out.sum().cpu(),
    )


def _residual_correlation(
    centred: Tensor, graph: Graph, known: Known, statistics: FeatureStatistics
) -> float:
    """Correlation along edges of what logits have beside their class mean; 0 unless clear."""
    links = _labelled_links(graph, known.labelled)
    if links.shape[1] == 0:
        return 0.0
    points, means = discriminant(centred[links.flatten()], statistics)
    rests = points - means[known.labels[links.flatten()]]
    sent, received = rests.view(*links.shape, -1)
    spread = (sent.square().sum() * received.square().sum()).sqrt().clamp_min(1e-12)
    found = float((sent * received).sum() / spread)
    chance = 2 / max(1, links.shape[1] * max(1, points.shape[1])) ** 0.5
    return min(found, 0.9) if found > chance else 0.0


def _labelled_links(graph: Graph, labelled: Tensor) -> Tensor:
    """Edges between different labelled nodes, at most `SAMPLE` of them, [2, E']."""
    sender, receiver = graph.edge_index
    both = (labelled[sender] & labelled[receiver] & (sender != receiver)).nonzero()[:, 0]
    return graph.edge_index[:, both[:: max(1, len(both) // SAMPLE)]]


class _Shift(NamedTuple):
    """Evidence and network log-probabilities [N, C] on the source under one simulated shift."""

    gathered: Gathered
    network: Tensor


def _simulated(
    model: Backbone,
    graph: Graph,
    known: Known,
    source: SourceEvidence,
    logits: Tensor,
    seed: int,
) -> list[_Shift]:
    found = []
    for changed in simulated_shifts(graph, known.labels, known.labelled, seed):
        links = _labelled_links(changed, known.labelled)
        network = model.head(model.representation(changed)).double().log_softmax(1)
        found.append(_Shift(gather(source, logits, changed, links), network))
    return found


def _weighed(source: SourceEvidence, shifts: Sequence[_Shift], known: Known) -> SourceEvidence:
    """With weights that make held-out labels most likely over all simulated shifts."""
    labelled = _some(known.labelled)
    labels = known.labels[labelled].cpu().numpy()
    evidence = _likeliest_weights(
        [[s.gathered.node[labelled], s.gathered.edges[labelled]] for s in shifts], labels
    )
    source = replace(source, evidence_weights=torch.from_numpy(evidence))
    held = _some(known.held_out)
    if len(held) == 0:
        return source
    labels = known.labels[held].cpu().numpy()
    both = [[s.gathered.weighted(source)[held], s.network[held]] for s in shifts]
    weights = _likeliest_weights(both, labels, most=(1.0, None), drawn=EQUAL_NODES / len(held))
    source = replace(source, pool_weights=torch.from_numpy(weights))
    return replace(
        source,
        information=torch.tensor(_information(source, both[0], labels)),
        simulated=torch.from_numpy(_tried(source, shifts, held, labels)),
    )


def _some(mask: Tensor) -> Tensor:
    """Numbers of at most `MOST` nodes."""
    numbers = mask.nonzero()[:, 0]
    return numbers[:: max(1, -(-len(numbers) // MOST))]


def _likeliest_weights(
    terms: Sequence[Sequence[Tensor]],
    labels: FloatArray,
    most: tuple[float | None, float | None] = (None, None),
    drawn: float = 0.0,
) -> FloatArray:
    """Weights of two terms [n, C] whose softmax makes labels most likely, over all shifts.

    Args:
        terms: for each shift.
        labels: the same under every shift, [n].
        most: upper bounds of the weights.
        drawn: weight of the squared distance from `EQUAL`.
    """
    first, second = (np.concatenate([np.asarray(pair[k].cpu()) for pair in terms]) for k in (0, 1))
    wanted = np.tile(labels, len(terms))
    at = np.arange(len(wanted))

    def objective(weights: FloatArray) -> tuple[float, FloatArray]:
        logs = log_softmax(weights[0] * first + weights[1] * second, 1)
        probs = np.exp(logs)
        slopes = [((probs * term).sum(1) - term[at, wanted]).mean() for term in (first, second)]
        away = weights - np.array(EQUAL)
        value = drawn * float(away @ away) - float(logs[at, wanted].mean())
        return value, np.array(slopes) + 2 * drawn * away

    bounds = [(0.0, limit) for limit in most]
    found = minimize(objective, np.array(EQUAL), jac=True, method="L-BFGS-B", bounds=bounds)
    weights: FloatArray = found.x
    return weights


def _information(source: SourceEvidence, both: Sequence[Tensor], labels: FloatArray) -> float:
    """Share of the entropy of the classes that the pool removes on held-out nodes."""
    weight, of_network = source.pool_weights.tolist()
    logs = (weight * both[0] + of_network * both[1]).log_softmax(1).cpu().numpy()
    shares = np.bincount(labels, minlength=logs.shape[1]) / len(labels)
    entropy = -float((shares * np.log(np.where(shares > 0, shares, 1))).sum())
    if entropy == 0:
        return 0.0
    return 1 + float(logs[np.arange(len(labels)), labels].mean()) / entropy


def _tried(
    source: SourceEvidence, shifts: Sequence[_Shift], held: Tensor, labels: FloatArray
) -> FloatArray:
    """Estimated and true accuracy of network, probe, belief and pool under each shift."""
    weight, of_network = source.pool_weights.tolist()
    truth, rows = torch.from_numpy(labels), []
    for shift in shifts:
        evidence, network = shift.gathered.weighted(source)[held], shift.network[held]
        pool = (weight * evidence + of_network * network).softmax(1).cpu()
        row = []
        for answer in (network.cpu(), shift.gathered.node[held].cpu(), evidence.cpu(), pool):
            label = answer.argmax(1)
            expected = float(pool.gather(1, label[:, None]).mean())
            row.append((expected, float((label == truth).double().mean())))
        rows.append(row)
    return np.array(rows)
