"""The probe: a regularised linear classifier of raw features, no edge seen.

It is what a node says about its class by itself. It is fitted to the labelled nodes of the source
and travels with the model. Logits of these nodes come from fits that left them out (five folds):
the probe knows the nodes it was fitted to too well.
"""

from typing import NamedTuple

import numpy as np
import scipy.sparse
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax
from torch import Tensor

from matcha_gnn.streams import Purpose, numpy_stream
from matcha_gnn.typing import FloatArray

STRENGTHS = tuple(10.0 ** (-power / 2) for power in range(2, 11))
"""Weights of the squared norm that are tried, from the strongest down: 0.1 to 1e-5."""
FOLDS = 5
SELECTION, MOST = 4_000, 30_000
"""Nodes on which scale and strength are chosen, and on which the probe is fitted."""
_ITERATIONS = 200
_WORSE = 2
"""Weaker penalties are no longer tried after so many that were worse than the best."""
_SPARSE_BELOW = 0.2
"""Features with a smaller share of non-zero entries are multiplied as sparse matrices."""
_TEMPERATURES = 2.0 ** np.arange(-6, 6.01, 0.125)

Rows = NDArray[np.float64] | scipy.sparse.csr_array


class Probe(NamedTuple):
    """Log-odds of the classes by the features alone: x W + b.

    Attributes:
        weight: W, with scale of the features and temperature inside, [F, C].
        bias: b, [C].
    """

    weight: Tensor
    bias: Tensor

    def logits(self, x: Tensor) -> Tensor:
        """Calibrated log-probabilities up to a constant, in float64, [N, C].

        Args:
            x: features, dense or sparse CSR, [N, F].
        """
        # From a weight that is stored by classes a product with few of them takes a fifth.
        weight = self.weight.to(x).T.contiguous().T
        return (x @ weight).double() + self.bias.to(x.device).double()


class ProbeFit(NamedTuple):
    """A probe, and what it says of nodes it was not fitted to.

    Attributes:
        probe: the mean of fits to four fifths of the labelled nodes each, so that its logits of
            new nodes are like those below.
        logits: of labelled nodes by fits without them, of others by the probe, [N, C] in float64.
        scale: of the columns, [F].
        strength: of the penalty.
        factor: of the logits, the inverse temperature.
        whole: weights and bias of the probe before scale and temperature, [F + 1, C].
    """

    probe: Probe
    logits: Tensor
    scale: FloatArray
    strength: float
    factor: float
    whole: FloatArray


def fit_probe(x: Tensor, labels: Tensor, labelled: Tensor, classes: int, seed: int = 0) -> ProbeFit:
    """Fit a probe to labelled nodes.

    Scale of the columns (all alike, or each by its root mean square) and strength of the penalty
    are those with the least cross entropy on a quarter of the nodes; the temperature is that of
    logits by the fits without a node.

    Args:
        x: features, dense or sparse CSR, [N, F].
        labels: classes, [N]; read at labelled nodes only.
        labelled: bool [N].
        classes: C.
        seed: of folds and samples.

    Example:
        >>> x = torch.tensor([[1.0], [-1.0]]).repeat(20, 1)
        >>> fit = fit_probe(x, torch.arange(40) % 2, torch.ones(40, dtype=torch.bool), 2)
        >>> fit.probe.logits(x[:2]).argmax(1)
        tensor([0, 1])
    """
    rows, y = rows_of(x), labels.cpu().numpy()
    known = np.flatnonzero(labelled.cpu().numpy())
    order = numpy_stream(seed, Purpose.PROBE_NODES).permutation(known)
    drawn = _evenly_by_class(order, y[order])[:MOST]
    scale, strength = _chosen(rows, y, drawn[:SELECTION], classes)
    scaled = _scaled(rows, scale)
    start = _fitted(scaled[drawn], y[drawn], classes, strength)
    # Each fold has its share of every class: otherwise the others miss what it has more of, and
    # their biases lean away from it.
    by_class = drawn[np.argsort(y[drawn], kind="stable")]
    folds = [by_class[k::FOLDS] for k in range(FOLDS)] if len(drawn) >= FOLDS else [drawn[:0]]
    parts = []
    for held in folds:
        others = np.setdiff1d(drawn, held, assume_unique=True)
        parts.append(_fitted(scaled[others], y[others], classes, strength, start))
    whole: FloatArray = np.mean(parts, 0)
    logits = _applied(scaled, whole)
    for held, part in zip(folds, parts, strict=True):
        logits[held] = _applied(scaled[held], part)
    factor = temperature_of(logits[drawn], y[drawn])
    probe = Probe(
        torch.from_numpy(factor * scale[:, None] * whole[:-1]).float(),
        torch.from_numpy(factor * whole[-1]).float(),
    )
    kept = torch.from_numpy(factor * logits)
    return ProbeFit(probe, kept, scale, strength, factor, whole)


def logits_without(
    fit: ProbeFit, rows: Rows, labels: Tensor, labelled: Tensor, parts: Tensor
) -> Tensor:
    """Logits of every node by a fit to labelled nodes outside its part, [N, C] in float64.

    Scale, strength and temperature are those of the whole fit.

    Args:
        fit: of the same nodes.
        rows: features, [N, F].
        labels: classes, [N]; read at labelled nodes only.
        labelled: bool [N].
        parts: of the nodes, [N].
    """
    scaled, groups = _scaled(rows, fit.scale), parts.numpy()
    y, known = labels.numpy(), labelled.numpy()
    logits = np.empty((len(groups), fit.whole.shape[1]))
    for part in np.unique(groups):
        inside = np.flatnonzero(groups == part)
        outside = np.flatnonzero(known & (groups != part))
        drawn = outside[:: -(-len(outside) // MOST) or 1]
        both = _fitted(scaled[drawn], y[drawn], fit.whole.shape[1], fit.strength, fit.whole)
        logits[inside] = _applied(scaled[inside], both)
    return torch.from_numpy(fit.factor * logits)


def temperature_of(logits: FloatArray, labels: NDArray[np.int64]) -> float:
    """The factor of logits [N, C] under which labels [N] are most likely."""
    return float(min(_TEMPERATURES, key=lambda factor: _cross_entropy(factor * logits, labels)))


def _evenly_by_class(nodes: NDArray[np.int64], labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """The nodes in an order of which every beginning has its share of every class."""
    by_class = np.argsort(labels, kind="stable")
    counts = np.bincount(labels)
    rank = np.arange(len(nodes)) - np.repeat(np.cumsum(counts) - counts, counts)
    place = np.empty(len(nodes))
    place[by_class] = (rank + 0.5) / np.repeat(counts, counts)
    return nodes[place.argsort(kind="stable")]


def rows_of(x: Tensor) -> Rows:
    """Features on the CPU in float64, sparse where most entries are zero."""
    if x.layout != torch.strided:
        parts = (x.values().cpu(), x.col_indices().cpu(), x.crow_indices().cpu())
        found = scipy.sparse.csr_array(
            tuple(p.numpy() for p in parts), shape=(x.shape[0], x.shape[1])
        )
        return found.astype(np.float64)
    dense = x.detach().cpu().numpy().astype(np.float64)
    if (dense[:: max(1, len(dense) // 1000)] != 0).mean() < _SPARSE_BELOW:
        return scipy.sparse.csr_array(dense)
    return dense


def _scaled(rows: Rows, scale: FloatArray) -> Rows:
    if scipy.sparse.issparse(rows):
        found: Rows = (rows @ scipy.sparse.diags_array(scale)).tocsr()
        return found
    return rows * scale


def _scales(rows: Rows) -> list[FloatArray]:
    """One factor for all columns, and one for each."""
    squares = np.asarray((rows.multiply(rows) if scipy.sparse.issparse(rows) else rows**2).mean(0))
    squares = squares.ravel()
    alike = np.full(len(squares), 1 / np.sqrt(max(squares.sum(), 1e-300)))
    safe = np.where(squares > 0, squares, np.inf)
    return [alike, 1 / np.sqrt(safe * len(squares))]


def _chosen(
    rows: Rows, labels: NDArray[np.int64], drawn: NDArray[np.int64], classes: int
) -> tuple[FloatArray, float]:
    """Scale and strength with the least cross entropy on a quarter of the drawn nodes."""
    held, others = np.split(drawn, [len(drawn) // 4])
    best = np.inf
    found = _scales(rows[drawn])[0], STRENGTHS[0]
    if len(held) == 0:
        return found
    for scale in _scales(rows[drawn]):
        train, test = _scaled(rows[others], scale), _scaled(rows[held], scale)
        start, least, worse = None, np.inf, 0
        for strength in STRENGTHS:
            start = _fitted(train, labels[others], classes, strength, start)
            logits = _applied(test, start)
            value = _cross_entropy(temperature_of(logits, labels[held]) * logits, labels[held])
            if value < best:
                best, found = value, (scale, strength)
            least, worse = (value, 0) if value < least else (least, worse + 1)
            if worse == _WORSE:
                break
    return found


def _fitted(
    rows: Rows,
    labels: NDArray[np.int64],
    classes: int,
    strength: float,
    start: FloatArray | None = None,
) -> FloatArray:
    """Multinomial logistic regression; weights and, in the last row, the bias, [F + 1, C]."""
    number, width = rows.shape
    wanted = np.eye(classes)[labels]

    def objective(flat: FloatArray) -> tuple[float, FloatArray]:
        both = flat.reshape(width + 1, classes)
        logits = _applied(rows, both)
        slope = (softmax(logits, 1) - wanted) / number
        value = _cross_entropy(logits, labels) + 0.5 * strength * float((both[:-1] ** 2).sum())
        down = np.vstack([rows.T @ slope + strength * both[:-1], slope.sum(0)])
        return value, down.ravel()

    begin = np.zeros((width + 1) * classes) if start is None else start.ravel()
    found = minimize(
        objective, begin, jac=True, method="L-BFGS-B", options={"maxiter": _ITERATIONS}
    )
    solution: FloatArray = found.x.reshape(width + 1, classes)
    return solution


def _applied(rows: Rows, both: FloatArray) -> FloatArray:
    found: FloatArray = rows @ both[:-1] + both[-1]
    return found


def _cross_entropy(logits: FloatArray, labels: NDArray[np.int64]) -> float:
    return -float(log_softmax(logits, 1)[np.arange(len(labels)), labels].mean())
