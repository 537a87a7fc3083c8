"""Measure on a labelled source graph how far its features, its edges and the network are right."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from matcha_gnn.evidence.gathering import Gathered, gather, link_ends
from matcha_gnn.evidence.neighbours import SAMPLE, fit_edge_shares
from matcha_gnn.evidence.parts import THIRDS, measure_parts
from matcha_gnn.evidence.probe import ProbeFit, fit_probe
from matcha_gnn.evidence.shift_kinds import (
    FeatureStatistics,
    class_statistics,
    discriminant,
    fit_mixture,
    misfit,
)
from matcha_gnn.evidence.summary import SourceEvidence
from matcha_gnn.evidence.trust import contradiction
from matcha_gnn.evidence.weighing import (
    EvidenceWeights,
    PoolWeights,
    fit_evidence_weights,
    fit_pool_weights,
)
from matcha_gnn.graphs.memory import Graph
from matcha_gnn.network.network import Network
from matcha_gnn.progress import LateBar
from matcha_gnn.streams import Purpose, torch_stream

MOST = 5_000
"""Nodes on which weights are fitted: their standard errors are below 0.03 then."""
FEWEST_LINKS = 100
"""Labelled edges from which class-to-class shares are taken from them."""
SHIFTS = 4
"""Simulated shifts, the graph as it is among them."""
DROPPED, REWIRED, APART = 0.5, 0.5, 0.75
"""Share of edges that are dropped; that get another end; of those inside a class that are
dropped."""


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
    network: Network, graph: Graph, known: Known, logits: Tensor, seed: int = 0
) -> SourceEvidence:
    """Fit the probe, and learn on simulated shifts how to weigh node, edges and network.

    Args:
        network: trained; it runs once per simulated shift, if it can run on other graphs.
        graph: the source.
        known: its labels. Without held-out nodes network and evidence count alike.
        logits: of the network on the graph, [N, C].
        seed: of folds and simulated shifts.
    """
    progress, steps = LateBar("summarising the source"), 2 + SHIFTS
    found, fit = measure_probe(graph, known, logits.shape[1], seed)
    progress(1, steps)
    shifts = list[_Shift]()
    for changed in simulated_shifts(graph, known.labels, known.labelled, seed):
        own = network.logits(changed) if shifts and network.reruns else logits
        shifts.append(_shift(changed, own, known, found, fit.logits.to(graph.device)))
        progress(1 + len(shifts), steps)
    measured = with_parts(
        _weighed(found, shifts, known, graph), graph, known, fit, shifts[0].gathered
    )
    progress(steps, steps)
    return measured


def with_parts(
    source: SourceEvidence, graph: Graph, known: Known, fit: ProbeFit, gathered: Gathered
) -> SourceEvidence:
    """With what parts of the source show that are left out whole.

    Args:
        source: with its weights.
        graph: the source.
        known: its labels.
        fit: the probe.
        gathered: evidence on the source as it is.
    """
    return replace(
        source,
        parts=measure_parts(source, graph, fit, known.labels, known.labelled),
        part_nodes=known.labelled.sum().cpu() / THIRDS,
        contradiction=torch.tensor(contradiction(gathered, source, known.labelled)),
    )


def measure_probe(
    graph: Graph, known: Known, classes: int, seed: int = 0
) -> tuple[SourceEvidence, ProbeFit]:
    """Fit the probe and measure its logits; all weights are those of evidence that is right."""
    fit = fit_probe(graph.x, known.labels, known.labelled, classes, seed)
    logits = fit.logits.to(graph.device)
    centred = logits - logits.mean(1, keepdim=True)
    found = _statistics(centred, graph, known, classes)
    return replace(found, probe_weight=fit.probe.weight, probe_bias=fit.probe.bias), fit


def _statistics(centred: Tensor, graph: Graph, known: Known, classes: int) -> SourceEvidence:
    """Of the probe's logits and of edges; weights are those of evidence that is right as it is."""
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
    found = SourceEvidence(
        probe_weight=centroids.new_zeros(0, classes),
        probe_bias=centroids.new_zeros(classes),
        shares=shares,
        centroids=centroids,
        covariance=covariance,
        misfit=misfit(centred[labelled], statistics),
        class_distance=torch.tensor(mixture.scale),
        residual_correlation=torch.tensor(_residual_correlation(centred, graph, known, statistics)),
        edge_shares=_edge_shares(graph, known, shares),
        misfit_of_edges=torch.tensor(0.0),
        weights=torch.tensor(EvidenceWeights()),
        pool=torch.tensor(PoolWeights()),
        information=torch.tensor(0.0),
        parts=torch.zeros(0, 2, 2),
        part_nodes=torch.tensor(0.0),
        contradiction=torch.tensor(0.0),
        simulated=torch.zeros(0, 4, 2),
        held_out=known.held_out.sum().cpu(),
        stand_in=torch.tensor(False),
    )
    return replace(
        found, misfit_of_edges=torch.tensor(_misfit_of_edges(found, centred, graph, known))
    )


def _edge_shares(graph: Graph, known: Known, shares: Tensor) -> Tensor:
    """Share of edges to a receiver of class a from a sender of class b, [C, C].

    Half an edge per pair of classes is added, as classes link at random; no more is known where
    there are fewer than `FEWEST_LINKS`.
    """
    by_chance = shares[:, None] * shares
    sender, receiver = graph.edge_index[:, _between(graph, known.labelled)]
    if len(sender) < FEWEST_LINKS:
        return by_chance
    pairs = known.labels[receiver] * len(shares) + known.labels[sender]
    counts = torch.bincount(pairs, minlength=by_chance.numel()).view_as(by_chance)
    found: Tensor = counts + 0.5 * by_chance.numel() * by_chance
    return found / found.sum()


def _misfit_of_edges(source: SourceEvidence, centred: Tensor, graph: Graph, known: Known) -> float:
    """Log-likelihood per edge that a fit without labels gains over the true shares."""
    links = _labelled_links(graph, known.labelled)
    if links.shape[1] < FEWEST_LINKS:
        return 0.0
    flat = links.flatten()
    node = centred[flat].log_softmax(1)
    ends = link_ends(source, node, centred[flat], source.shares, links.shape[1])
    fitted = fit_edge_shares(ends, source.shares)
    gained = ends.log_likelihood(fitted) - ends.log_likelihood(source.edge_shares)
    return max(0.0, gained)


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


def _between(graph: Graph, labelled: Tensor) -> Tensor:
    """Numbers of the edges between different labelled nodes."""
    sender, receiver = graph.edge_index
    both: Tensor = labelled[sender] & labelled[receiver] & (sender != receiver)
    return both.nonzero()[:, 0]


def _labelled_links(graph: Graph, labelled: Tensor) -> Tensor:
    """At most `SAMPLE` edges between different labelled nodes, [2, E']."""
    both = _between(graph, labelled)
    return graph.edge_index[:, both[:: max(1, -(-len(both) // SAMPLE))]]


class _Shift(NamedTuple):
    """Evidence and network log-probabilities [N, C] on the source under one simulated shift."""

    gathered: Gathered
    network: Tensor


def _shift(
    changed: Graph, network: Tensor, known: Known, source: SourceEvidence, logits: Tensor
) -> _Shift:
    """Evidence on a changed copy of the source, from logits of network and probe, [N, C]."""
    links = _labelled_links(changed, known.labelled)
    # With few labelled edges all serve: no fit of the probe has seen an unlabelled node.
    enough = links.shape[1] >= FEWEST_LINKS
    gathered = gather(source, logits, changed, links if enough else None)
    return _Shift(gathered, network.double().log_softmax(1))


def simulated_shifts(graph: Graph, labels: Tensor, labelled: Tensor, seed: int) -> Iterator[Graph]:
    """The graph as it is, half of its edges dropped, half rewired, and fewer inside classes.

    Both directions of an edge share its fate.

    Args:
        graph: the source.
        labels: classes, [N]; read at labelled nodes only.
        labelled: bool [N].
        seed: of the draws.

    Yields:
        Four graphs with the same nodes.
    """
    edges, number = graph.edge_index, graph.num_nodes
    low, high = edges.amin(0), edges.amax(0)
    pairs, which = torch.unique(low * number + high, return_inverse=True)
    generator = torch_stream(seed, Purpose.SIMULATED_SHIFTS)

    def chance() -> Tensor:
        return torch.rand(len(pairs), generator=generator).to(edges.device)

    yield graph
    yield graph.at_edges((chance() >= DROPPED)[which])
    other = torch.randint(number, (len(pairs),), generator=generator).to(edges.device)
    moved = (chance() < REWIRED)[which]
    # The end with the larger number moves, for both directions of an edge.
    yield graph.with_ends(torch.where(moved & (edges == high), other[which], edges))
    first, second = pairs // number, pairs % number
    inside = labelled[first] & labelled[second] & (labels[first] == labels[second])
    yield graph.at_edges(~(inside & (chance() < APART))[which])


def _weighed(
    source: SourceEvidence, shifts: Sequence[_Shift], known: Known, graph: Graph
) -> SourceEvidence:
    """With weights that make known labels most likely over all simulated shifts."""
    some = _some(known.labelled)
    evidence = fit_evidence_weights(
        [shift.gathered.terms_at(some) for shift in shifts],
        known.labels[some].cpu(),
    )
    source = replace(source, weights=torch.tensor(evidence))
    held = _some(known.held_out)
    if len(held) == 0:
        return source
    labels = known.labels[held].cpu()
    both = [
        (shift.gathered.weighted(source)[held].cpu(), shift.network[held].cpu()) for shift in shifts
    ]
    exposed = _exposed(graph, known)[held].cpu()
    source = replace(source, pool=torch.tensor(fit_pool_weights(both, labels, exposed)))
    pools = [source.pool_weights.pool(*pair) for pair in both]
    return replace(
        source,
        information=torch.tensor(_information(pools[0], labels)),
        simulated=_tried(shifts, both, pools, held, labels),
    )


def _some(mask: Tensor) -> Tensor:
    """Numbers of at most `MOST` nodes."""
    numbers = mask.nonzero()[:, 0]
    return numbers[:: max(1, -(-len(numbers) // MOST))]


def _exposed(graph: Graph, known: Known) -> Tensor:
    """Share of each node's neighbours that the network was trained on, [N]."""
    trained = (known.labelled & ~known.held_out).double()[:, None]
    sums = graph.incoming.sums(torch.cat([trained, torch.ones_like(trained)], 1))
    return sums[:, 0] / sums[:, 1].clamp_min(1)


def _information(pool: Tensor, labels: Tensor) -> float:
    """Share of the entropy of the classes that the pool removes on held-out nodes."""
    shares = torch.bincount(labels, minlength=pool.shape[1]).double() / len(labels)
    entropy = float(torch.special.entr(shares).sum())
    likely = float(pool.gather(1, labels[:, None]).mean())
    return 1 + likely / entropy if entropy else 0.0


def _tried(
    shifts: Sequence[_Shift],
    both: Sequence[tuple[Tensor, Tensor]],
    pools: Sequence[Tensor],
    held: Tensor,
    labels: Tensor,
) -> Tensor:
    """Estimated and true accuracy of network, probe, belief and pool under each shift."""
    rows = []
    for shift, (evidence, network), pool in zip(shifts, both, pools, strict=True):
        row = []
        for answer in (network, shift.gathered.node[held].cpu(), evidence, pool):
            label = answer.argmax(1)
            expected = float(pool.exp().gather(1, label[:, None]).mean())
            row.append((expected, float((label == labels).double().mean())))
        rows.append(row)
    return torch.tensor(rows)
