"""Node-only evidence and evidence from edges on any graph, by what the source has measured."""

from typing import NamedTuple

import torch
from torch import Tensor

from matcha_gnn.evidence.neighbours import (
    SAMPLE,
    DegreeLaw,
    Ends,
    Residuals,
    edge_ends,
    fit_degree_law,
    fit_edge_shares,
    incoming_degrees,
    neighbour_evidence,
    shrunk_edge_shares,
)
from matcha_gnn.evidence.shift_kinds import (
    FeatureSample,
    FeatureShift,
    FeatureStatistics,
    ShiftKind,
    discriminant,
    estimate_shift,
    stride,
)
from matcha_gnn.evidence.summary import SourceEvidence
from matcha_gnn.graphs.memory import Graph
from matcha_gnn.kernels.softmax import class_log_softmax

NOISE_FROM = 1.25
"""Variance within classes from which a target counts as noisier than the source: out-of-fold logits
of the source differ by less from those of the whole probe."""


class Gathered(NamedTuple):
    """What is known of the classes of a graph's nodes without the network.

    Attributes:
        node: log-probabilities by the features of a node, [N, C].
        edges: log-odds by the nodes around it, [N, C].
        degrees: incoming, [N].
        degree_law: what a degree says of the class.
        edge_shares: share of edges to a receiver of class a from a sender of class b, [C, C].
        shift: how the probe's logits differ from the source's.
        noise: variance of the logits within classes, in units of the source's; 1 unless
            clearly more.
    """

    node: Tensor
    edges: Tensor
    degrees: Tensor
    degree_law: DegreeLaw
    edge_shares: Tensor
    shift: FeatureShift
    noise: float

    @property
    def terms(self) -> tuple[Tensor, Tensor, Tensor]:
        """Evidence by features, by neighbours and by the degree, [N, C] each."""
        return self.node, self.edges, self.degree_law.log_odds(self.degrees)

    def terms_at(self, nodes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The same of some nodes, on the CPU."""
        node, edges, degrees = self.terms
        return node[nodes].cpu(), edges[nodes].cpu(), degrees[nodes].cpu()

    def weighted(self, source: SourceEvidence) -> Tensor:
        """Log-probabilities by features and edges, calibrated on the source, [N, C]."""
        return source.evidence_weights.combined(*self.terms)


def centred(logits: Tensor) -> Tensor:
    """Logits [N, C] less the mean of each node's."""
    by_class = logits.T.contiguous()
    return (by_class - by_class.mean(0)).T


class NodeLaw(NamedTuple):
    """How the probe's logits on a target become evidence of its classes.

    Attributes:
        source_shares: of the classes on the source, [C].
        shift: how the logits differ from the source's.
        noise: variance of the logits within classes, in units of the source's.
    """

    source_shares: Tensor
    shift: FeatureShift
    noise: float

    @classmethod
    def fitted(cls, source: SourceEvidence, points: Tensor, number: int) -> "NodeLaw":
        """By centred logits of a sample, [M, C], of so many nodes."""
        shares, statistics = source.shares.double(), source.statistics
        shift = FeatureShift(ShiftKind.SAME, shares, torch.zeros_like(points[0]), {})
        if source.gaussian:
            sample = FeatureSample(points, points.mean(0), number)
            shift = estimate_shift(sample, statistics, source.misfit)
        return cls(shares, shift, _noise(statistics, points))

    def moved(self, logits: Tensor) -> Tensor:
        """Centred logits as they would be on the source, [N, C]."""
        return logits - self.shift.offset

    def log_probs(self, moved: Tensor) -> Tensor:
        """Log-probabilities by features of nodes with these logits, [N, C]."""
        prior = self.shift.shares.log()
        return class_log_softmax((moved - self.source_shares.log()) / self.noise + prior)


def gather(
    source: SourceEvidence, logits: Tensor, graph: Graph, links: Tensor | None = None
) -> Gathered:
    """Evidence on a graph.

    Args:
        source: what the source has measured.
        logits: of the probe, [N, C] in float64.
        graph: its edges are used, not its features.
        links: edges that class-to-class shares are fitted on, [2, E']; a sample by default.
    """
    logits = centred(logits)
    number = len(logits)
    law = NodeLaw.fitted(source, logits[:: stride(number)], number)
    shares = law.shift.shares
    moved = law.moved(logits)
    node = law.log_probs(moved)
    links = graph.sample_links(SAMPLE, seed=0) if links is None else links
    flat = links.flatten()
    edge_shares = fit_linked_classes(source, node[flat], moved[flat], shares)
    edges = neighbour_evidence(node, edge_shares, shares, graph)
    degrees = incoming_degrees(graph)
    degree_law = fit_degree_law(edge_shares, shares, degrees)
    return Gathered(node, edges, degrees, degree_law, edge_shares, law.shift, law.noise)


def fit_linked_classes(
    source: SourceEvidence, node: Tensor, points: Tensor, shares: Tensor
) -> Tensor:
    """Share of edges to a receiver of class a from a sender of class b, [C, C], by a sample.

    Args:
        source: what the source has measured.
        node: log-probabilities by features of all senders, then of all receivers, [2 E', C].
        points: their centred logits, [2 E', C].
        shares: π that `node` has as prior, [C].
    """
    ends = link_ends(source, node, points, shares, len(node) // 2)
    fitted = fit_edge_shares(ends, shares)
    return shrunk_edge_shares(
        ends, fitted, source.edge_shares.double(), float(source.misfit_of_edges)
    )


def link_ends(
    source: SourceEvidence, node: Tensor, points: Tensor, shares: Tensor, number: int
) -> Ends:
    """Likelihoods of the ends of sampled edges.

    Args:
        source: what the source has measured.
        node: log-probabilities by features of all senders, then of all receivers, [2 E', C].
        points: their centred logits, [2 E', C].
        shares: π that `node` has as prior, [C].
        number: E'.
    """
    senders, receivers = node.exp().view(2, number, len(shares))
    correlation = float(source.residual_correlation)
    if correlation <= 0:
        return edge_ends(senders, receivers, shares)
    places, means = discriminant(points, source.statistics)
    at = Residuals(places.view(2, number, places.shape[1]), means, correlation)
    return edge_ends(senders, receivers, shares, at)


def _noise(source: FeatureStatistics, logits: Tensor) -> float:
    """How much larger than on the source the variance within classes is; 1 unless clearly more.

    The distance between classes is taken to be that of the source: a smaller variance may come
    from classes that are closer, which makes nothing surer.
    """
    points, means = discriminant(logits, source)
    shares = source.shares.double()
    between = shares @ (means - shares @ means).square()
    if len(points) < 2 or points.shape[1] == 0:
        return 1.0
    found = float((points.var(0) - between).mean())
    return found if found > NOISE_FROM else 1.0
