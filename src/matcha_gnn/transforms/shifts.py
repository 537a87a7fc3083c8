"""Controlled shifts of any labelled graph, each to a stated target.

Every function takes a PyG `Data` and returns a new one: the original keeps its tensors, and what
did not change is shared, not copied. They compose by calling one on another's result, or with
`shifted`. In an undirected graph both directions of an edge go together.
"""

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from matcha_gnn.errors import InvalidArgumentError, InvalidGraphError
from matcha_gnn.kernels.sparse import csr_tensor, scipy_csr
from matcha_gnn.registry import resolve
from matcha_gnn.streams import Purpose, numpy_stream

if TYPE_CHECKING:
    from torch_geometric.data import Data

IntArray = NDArray[np.int64]


def with_homophily(graph: "Data", target: float, seed: int = 0) -> "Data":
    """Drop edges at random inside classes, or between them, to reach an edge homophily.

    Args:
        graph: has labels `y`.
        target: share of edges inside a class; met to within one edge.
        seed: which edges go.

    Example:
        >>> from matcha_gnn.datasets import csbm
        >>> from matcha_gnn.metrics import edge_homophily
        >>> graph = with_homophily(csbm(1000, 4, degree=8, homophily=0.7), 0.2)
        >>> round(edge_homophily(graph.edge_index, graph.y), 2)
        0.2
    """
    labels = _labels(graph)
    if not 0 <= target <= 1:
        raise InvalidArgumentError("homophily", target, "a share in [0, 1]")
    links = _Links(graph)
    alike = labels[links.sender] == labels[links.receiver]
    inside, between = int(links.columns[alike].sum()), int(links.columns[~alike].sum())
    if inside + between == 0 or (inside == 0 and target > 0) or (between == 0 and target < 1):
        got = f"{target} for {inside} edges inside classes and {between} between"
        raise InvalidArgumentError("homophily", got, "what is left after dropping some of them")
    surplus_inside = inside * (1 - target) > between * target
    if surplus_inside:
        drop = inside - between * target / (1 - target)
    else:
        drop = between - inside * (1 - target) / target
    candidates = np.flatnonzero(alike == surplus_inside)
    return links.without(links.some(candidates, drop, numpy_stream(seed, Purpose.HOMOPHILY_SHIFT)))


def with_degree(graph: "Data", target: float, seed: int = 0) -> "Data":
    """Drop edges at random to reach an average degree.

    Args:
        graph: any graph.
        target: columns of `edge_index` per node; met to within one edge.
        seed: which edges go.

    Example:
        >>> from matcha_gnn.datasets import csbm
        >>> graph = with_degree(csbm(1000, 4, degree=8), 2.0)
        >>> graph.num_edges / graph.num_nodes
        2.0
    """
    links = _Links(graph)
    present = graph.edge_index.shape[1] / graph.num_nodes
    if not 0 <= target <= present:
        raise InvalidArgumentError("degree", target, f"0 to {present:g}, what the graph has")
    drop = (present - target) * graph.num_nodes
    everything = np.arange(len(links.columns))
    return links.without(links.some(everything, drop, numpy_stream(seed, Purpose.DEGREE_SHIFT)))


def with_edge_shares(
    graph: "Data", target: Sequence[Sequence[float]] | Tensor, seed: int = 0
) -> "Data":
    """Drop edges at random to reach class-to-class edge shares: neighbour-label shift.

    Args:
        graph: has labels `y`.
        target: share of all edges that go from class a to class b, [C, C], summing to one;
            symmetric for an undirected graph. Every share is met to within one edge, with as
            many edges left as that allows.
        seed: which edges go.

    Example:
        >>> from matcha_gnn.datasets import csbm
        >>> graph = with_edge_shares(csbm(1000, 4, degree=8), [[0.6, 0.1], [0.1, 0.2]])
        >>> sender, receiver = graph.y[graph.edge_index]
        >>> round(float(((sender == 0) & (receiver == 0)).double().mean()), 2)
        0.6
    """
    labels = _labels(graph)
    links = _Links(graph)
    shares = _edge_shares(target, int(labels.max()) + 1, links.undirected)
    classes = len(shares)
    first, second = labels[links.sender], labels[links.receiver]
    if links.undirected:
        first, second = np.minimum(first, second), np.maximum(first, second)
        shares = np.triu(shares) + np.tril(shares, -1).T
    block = first * classes + second
    present = np.bincount(block, links.columns, minlength=classes**2)
    wanted = shares.ravel() * _largest_total(present, shares.ravel(), "edge shares")
    rng = numpy_stream(seed, Purpose.EDGE_SHARES_SHIFT)
    dropped = [
        links.some(np.flatnonzero(block == b), present[b] - wanted[b], rng)
        for b in np.flatnonzero(present)
    ]
    return links.without(np.concatenate(dropped))


def with_class_shares(graph: "Data", target: Sequence[float], seed: int = 0) -> "Data":
    """Drop nodes at random, with their edges, to reach class shares: label shift.

    Args:
        graph: has labels `y`.
        target: share of each class, summing to one; every class is met to within one node, with
            as many nodes left as that allows.
        seed: which nodes go.

    Example:
        >>> from matcha_gnn.datasets import csbm
        >>> graph = with_class_shares(csbm(1000, 4), [0.8, 0.2])
        >>> torch.bincount(graph.y).tolist()
        [500, 125]
    """
    labels = _labels(graph)
    shares = np.asarray(target, dtype=float)
    classes = int(labels.max()) + 1
    if shares.shape != (classes,) or (shares < 0).any() or not np.isclose(shares.sum(), 1):
        allowed = f"{classes} numbers >= 0 that sum to 1"
        raise InvalidArgumentError("class shares", list(target), allowed)
    present = np.bincount(labels, minlength=classes)
    wanted = shares * _largest_total(present, shares, "class shares")
    keep = np.minimum(np.rint(wanted), present).astype(np.int64)
    rng = numpy_stream(seed, Purpose.CLASS_SHARES_SHIFT)
    chosen = [rng.permutation(np.flatnonzero(labels == c))[: keep[c]] for c in range(classes)]
    return _induced(graph, np.sort(np.concatenate(chosen)))


def with_attribute_shift(graph: "Data", target: float) -> "Data":
    """Move every feature row by one vector along (1, …, 1)/√F.

    Args:
        graph: any graph; sparse features become dense.
        target: length of the vector in units of the features' spread (the root mean square
            deviation of a coordinate from its class mean, or from the overall mean where the
            graph has no labels), as `shift` of `csbm` is in units of the noise.

    Example:
        >>> from matcha_gnn.datasets import csbm
        >>> graph = csbm(1000, 16)
        >>> moved = with_attribute_shift(graph, 2.0).x - graph.x
        >>> round(float(moved[0].norm() / feature_spread(graph)), 3)
        2.0
    """
    _finite("attribute shift", target)
    step = target * feature_spread(graph) / graph.num_features**0.5
    return _replaced(graph, x=_dense(graph.x) + step)


def with_feature_noise(graph: "Data", target: float, seed: int = 0) -> "Data":
    """Add normal noise to the features.

    Args:
        graph: any graph; sparse features become dense.
        target: root mean square of the noise in units of the features' spread, see
            `with_attribute_shift`; met exactly.
        seed: of the noise.

    Example:
        >>> from matcha_gnn.datasets import csbm
        >>> graph = csbm(1000, 16)
        >>> noise = with_feature_noise(graph, 0.5).x - graph.x
        >>> round(float(noise.square().mean().sqrt() / feature_spread(graph)), 3)
        0.5
    """
    _finite("feature noise", target)
    if target < 0:
        raise InvalidArgumentError("feature noise", target, "a number >= 0")
    x = _dense(graph.x)
    drawn = numpy_stream(seed, Purpose.FEATURE_NOISE).standard_normal(tuple(x.shape))
    drawn *= target * feature_spread(graph) / np.sqrt(np.square(drawn).mean())
    return _replaced(graph, x=x + torch.from_numpy(drawn).to(x))


def feature_spread(graph: "Data") -> float:
    """Root mean square deviation of a coordinate from its class mean; see `with_attribute_shift`.

    Example:
        >>> from matcha_gnn.datasets import csbm
        >>> round(feature_spread(csbm(2000, 25)), 2)
        0.2
    """
    x = _dense(graph.x).double()
    labels = torch.zeros(len(x), dtype=torch.long) if graph.y is None else graph.y.long()
    classes = int(labels.max()) + 1
    counts = torch.bincount(labels, minlength=classes).clamp_min(1)
    means = x.new_zeros(classes, x.shape[1]).index_add_(0, labels, x) / counts.unsqueeze(1)
    return float((x - means[labels]).square().mean().sqrt())


# By the names that the command line uses.
SHIFTS: dict[str, Callable[..., "Data"]] = {
    "homophily": with_homophily,
    "degree": with_degree,
    "edge-shares": with_edge_shares,
    "class-shares": with_class_shares,
    "attribute": lambda graph, target, seed: with_attribute_shift(graph, target),
    "noise": with_feature_noise,
}


def shifted(graph: "Data", targets: Mapping[str, Any], seed: int = 0) -> "Data":
    """Apply several shifts in the given order; a later one can change the result of an earlier one.

    Args:
        graph: any graph.
        targets: by name: homophily, degree, edge-shares, class-shares, attribute, noise.
        seed: of all of them; each draws from its own stream.

    Example:
        >>> from matcha_gnn.datasets import csbm
        >>> graph = shifted(csbm(1000, 4, degree=8), {"homophily": 0.3, "degree": 2.0})
        >>> graph.num_edges
        2000
    """
    for name, target in targets.items():
        graph = resolve("shift", name, SHIFTS)(graph, target, seed=seed)
    return graph


class _Links:
    """The edges of a graph as units that are kept or dropped together.

    Attributes:
        undirected: every edge is there in both directions, which make one link.
        sender: one end of each link, [L].
        receiver: the other, [L].
        columns: how many columns of `edge_index` a link has, [L].
    """

    def __init__(self, graph: "Data") -> None:
        from torch_geometric.utils import is_undirected

        self._graph = graph
        sender, receiver = graph.edge_index.cpu().numpy()
        self.undirected = is_undirected(graph.edge_index, num_nodes=graph.num_nodes)
        if self.undirected:
            key = np.minimum(sender, receiver) * graph.num_nodes + np.maximum(sender, receiver)
            _, first, self._link, self.columns = np.unique(
                key, return_index=True, return_inverse=True, return_counts=True
            )
        else:
            first = self._link = np.arange(len(sender))
            self.columns = np.ones(len(sender), np.int64)
        self.sender: IntArray = sender[first]
        self.receiver: IntArray = receiver[first]

    def some(self, candidates: IntArray, columns: float, rng: np.random.Generator) -> IntArray:
        """Random links among the candidates whose number of columns is nearest to `columns`."""
        order = rng.permutation(candidates)
        total = np.concatenate([[0], np.cumsum(self.columns[order])])
        return np.asarray(order[: int(np.abs(total - columns).argmin())])

    def without(self, links: IntArray) -> "Data":
        """The graph less these links."""
        gone = np.zeros(len(self.columns), dtype=bool)
        gone[links] = True
        keep = torch.from_numpy(~gone[self._link]).to(self._graph.edge_index.device)
        reduced: Data = self._graph.edge_subgraph(keep)
        return reduced


def _largest_total(present: NDArray[Any], shares: NDArray[np.float64], name: str) -> float:
    """The largest total of which `shares` of each kind are present."""
    given = shares > 0
    total = float((present[given] / shares[given]).min())
    if total <= 0:
        empty = int(np.flatnonzero(given & (present == 0))[0])
        allowed = "0 where the graph has none"
        raise InvalidArgumentError(name, f"{shares[empty]:g} at position {empty}", allowed)
    return total


def _edge_shares(target: Any, classes: int, undirected: bool) -> NDArray[np.float64]:
    shares = np.asarray(target, dtype=float)
    if shares.size == classes**2:
        shares = shares.reshape(classes, classes)
    allowed = f"[{classes}, {classes}] numbers >= 0 that sum to 1"
    if shares.shape != (classes, classes) or (shares < 0).any() or not np.isclose(shares.sum(), 1):
        raise InvalidArgumentError("edge shares", shares.tolist(), allowed)
    if undirected and not np.allclose(shares, shares.T):
        raise InvalidArgumentError("edge shares", "no symmetric matrix", f"{allowed}, symmetric")
    return shares


def _labels(graph: "Data") -> IntArray:
    if graph.y is None:
        raise InvalidGraphError("graph.y", None, "labels, one for each node")
    labels: IntArray = graph.y.cpu().numpy()
    return labels


def _finite(name: str, value: float) -> None:
    if not np.isfinite(value):
        raise InvalidArgumentError(name, value, "a finite number")


def _dense(x: Tensor) -> Tensor:
    return x if x.layout == torch.strided else x.to_dense()


def _replaced(graph: "Data", **fields: Tensor) -> "Data":
    changed = copy(graph)
    for name, value in fields.items():
        changed[name] = value
    return changed


def _induced(graph: "Data", nodes: IntArray) -> "Data":
    """The subgraph of some nodes; torch cannot index rows of sparse features."""
    index = torch.from_numpy(nodes)
    if graph.x.layout == torch.strided:
        reduced: Data = graph.subgraph(index)
        return reduced
    x = graph.x.to_sparse_csr()
    bare = copy(graph)
    bare.x = None
    return _replaced(bare.subgraph(index), x=csr_tensor(scipy_csr(x)[nodes], x.dtype))
