"""Parts of the source graph left out whole: how an estimate errs on a population of its own.

A random fold of nodes is the same population as the rest. A region of the graph is not: its nodes
share features and neighbours that nodes elsewhere do not have. So the source is cut along the
leading directions of its smoothed features, within each class, into thirds that have the class mix
of the whole. The edges of a third to others are cut, as between graphs, and it is estimated as if
it were a target: by a probe that saw no label of it, and class-to-class shares fitted on it. Where
nodes differ in nothing but their class, as in block models, thirds differ by chance alone.

The network plays no part: it was trained on all of them.
"""

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from matcha_gnn.evidence.gathering import gather
from matcha_gnn.evidence.probe import ProbeFit, Rows, logits_without, rows_of
from matcha_gnn.evidence.summary import SourceEvidence
from matcha_gnn.graphs.memory import Graph
from matcha_gnn.streams import Purpose, numpy_stream
from matcha_gnn.typing import FloatArray

DIRECTIONS, THIRDS = 3, 3
"""Along so many directions the nodes of each class are cut into so many parts of one size."""
BELIEF = 1
"""Number of belief among the answers; 0 is the probe."""
FEWEST = 10
"""Labelled nodes of a part below which it shows nothing."""
_SKETCH, _ROUNDS, _HOPS = 8, 3, 2
_VARIES, _LEAST = 1e-5, 1e-100
"""Standard deviation of a column that varies, as a share of its mean, and in itself, at least."""


def measure_parts(
    source: SourceEvidence, graph: Graph, fit: ProbeFit, labels: Tensor, labelled: Tensor
) -> Tensor:
    """Accuracy of probe and belief on each part, by their own estimate and in truth.

    Args:
        source: what was measured on the whole.
        graph: the source.
        fit: the probe of the whole.
        labels: classes, [N]; read at labelled nodes only.
        labelled: bool [N].

    Returns:
        [parts, 2, 2], on the CPU; no part for a source with too few labels.
    """
    host = torch.device("cpu")
    source, labels, labelled = source.to(host), labels.to(host), labelled.to(host)
    named = torch.where(labelled, labels, fit.logits.argmax(1))
    edges = graph.edge_index.to(host)
    rows = rows_of(graph.x)
    found = []
    for groups in thirds(rows, edges, named):
        logits = logits_without(fit, rows, labels, labelled, groups)
        inside = edges[:, groups[edges[0]] == groups[edges[1]]]
        for group in range(THIRDS):
            nodes = (groups == group).nonzero()[:, 0]
            if int(labelled[nodes].sum()) >= FEWEST:
                found.append(_part(source, inside, nodes, logits[nodes], labels, labelled))
    return torch.tensor(found, dtype=torch.float64).view(-1, 2, 2)


def _part(
    source: SourceEvidence,
    edges: Tensor,
    nodes: Tensor,
    logits: Tensor,
    labels: Tensor,
    labelled: Tensor,
) -> list[tuple[float, float]]:
    """Expected and true accuracy of probe and belief on one part."""
    place = torch.full((len(labels),), -1)
    place[nodes] = torch.arange(len(nodes))
    own = place[edges]
    part = Graph(torch.ones(len(nodes), 1), own[:, (own >= 0).all(0)])
    gathered = gather(source, logits, part)
    judged = labelled[nodes]
    scores = []
    for answer in (gathered.node.exp(), gathered.weighted(source).exp()):
        sure, label = answer[judged].max(1)
        true = (label == labels[nodes][judged]).double().mean()
        scores.append((float(sure.mean()), float(true)))
    return scores


def thirds(rows: Rows, edges: Tensor, classes: Tensor) -> list[Tensor]:
    """The third that each node is in, along each direction, [N] each.

    Standardised features are averaged over two hops, less the mean of each class; the directions
    are those of their largest variance, by subspace iteration.

    Args:
        rows: features, [N, F].
        edges: [2, E].
        classes: of all nodes, known or predicted, [N].
    """
    number, width = rows.shape
    inverse = _inverse_spread(rows)
    average = _averaging(edges.numpy(), number)
    member = torch.nn.functional.one_hot(classes).double().numpy()
    counts = member.sum(0).clip(1)[:, None]

    def within(values: FloatArray) -> FloatArray:
        centred: FloatArray = values - member @ (member.T @ values / counts)
        return centred

    def places(directions: FloatArray) -> FloatArray:
        values = rows @ (inverse[:, None] * directions)
        for _ in range(_HOPS):
            values = average @ values
        return within(values)

    def back(values: FloatArray) -> FloatArray:
        values = within(values)
        for _ in range(_HOPS):
            values = average.T @ values
        directions: FloatArray = inverse[:, None] * (rows.T @ values)
        return directions

    draws = numpy_stream(0, Purpose.SOURCE_PARTS)
    found = places(np.linalg.qr(draws.normal(size=(width, min(_SKETCH, width))))[0])
    for _ in range(_ROUNDS):
        found = places(np.linalg.qr(back(np.linalg.qr(found)[0]))[0])
    axes = np.linalg.svd(found, full_matrices=False)[0][:, :DIRECTIONS]
    return [_third(axis, classes.numpy()) for axis in axes.T]


def _inverse_spread(rows: Rows) -> FloatArray:
    """One over the standard deviation of each column; 0 where it does not vary, [F]."""
    mean = np.asarray(rows.mean(0)).ravel()
    if isinstance(rows, np.ndarray):
        squares = np.einsum("nf,nf->f", rows, rows)
    else:
        squares = rows.power(2).sum(0)
    spread = np.sqrt(np.maximum(squares / rows.shape[0] - np.square(mean), 0))
    varies = spread > np.maximum(_VARIES * abs(mean), _LEAST)
    inverse: FloatArray = np.divide(1, spread, out=np.zeros_like(spread), where=varies)
    return inverse


def _averaging(edges: FloatArray, number: int) -> scipy.sparse.csr_array:
    """The mean over a node and those that it receives from, [N, N]."""
    sender, receiver = np.hstack([edges, np.tile(np.arange(number), (2, 1))])
    ones = np.ones(len(sender))
    linked = scipy.sparse.coo_array((ones, (receiver, sender)), (number, number)).tocsr()
    averaging: scipy.sparse.csr_array = scipy.sparse.diags_array(1 / linked.sum(1)) @ linked
    return averaging.tocsr()


def _third(axis: FloatArray, classes: FloatArray) -> Tensor:
    """Thirds of one size within each class, by the place along an axis [N]."""
    found = np.empty(len(axis), dtype=np.int64)
    for each in np.unique(classes):
        members = np.flatnonzero(classes == each)
        order = members[np.argsort(axis[members], kind="stable")]
        found[order] = np.arange(len(order)) * THIRDS // len(order)
    return torch.from_numpy(found)
