"""Graphs of chosen homophily that grow by preferential attachment (H2GCN, Zhu et al. 2020)."""

from bisect import bisect_right
from collections.abc import Iterator
from copy import copy
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from matcha_gnn.errors import InvalidArgumentError

if TYPE_CHECKING:
    from torch_geometric.data import Data

IntArray = NDArray[np.int64]


def preferential(
    pool: "Data", homophily: float, links: int = 2, seed_nodes: int = 10, seed: int = 0
) -> "Data":
    """Grow a graph and deal a pool of real nodes to it, at random within each class.

    A new node links to `links` earlier ones, chosen with probability proportional to
    H[own class, their class] · max(their degree, 1), see `compatibility`. The first
    `links` · C nodes hold each class `links` times, so that every class can be chosen from the
    start. The first `seed_nodes` nodes form a path without its first edge; where homophily is 0 or
    1, they link to one compatible earlier node each, if there is one.

    Args:
        pool: N nodes with labels `y` and dense features `x`; each is used once, and takes along
            what else the pool holds for each node, such as masks. Edges are ignored.
        homophily: expected share of edges inside a class.
        links: m, edges that a new node brings.
        seed_nodes: nodes before growth starts, at least m · C.
        seed: everything random follows from it.

    Returns:
        An undirected simple graph of N nodes and (N - seed_nodes) · links + seed_nodes - 2 edges
        (fewer seed edges at homophily 0 or 1).

    Example:
        >>> from torch_geometric.data import Data
        >>> pool = Data(x=torch.arange(100.0).view(100, 1), y=torch.arange(100) % 5)
        >>> graph = preferential(pool, homophily=0.8)
        >>> graph.num_edges // 2, bool((graph.x[:, 0].long() % 5 == graph.y).all())
        (188, True)
    """
    given = pool.y.numpy()
    sizes = np.bincount(given)
    rng = np.random.default_rng(seed)
    labels = _class_order(sizes, links, rng)
    edges = _grow(labels, compatibility(len(sizes), homophily), links, seed_nodes, rng)
    row = np.empty(len(labels), np.int64)
    for c in range(len(sizes)):
        row[labels == c] = rng.permutation(np.flatnonzero(given == c))
    graph = copy(pool)
    for name in pool.node_attrs():
        graph[name] = pool[name][torch.from_numpy(row)]
    graph.edge_index = torch.from_numpy(np.concatenate([edges, edges[::-1]], axis=1))
    return graph


def compatibility(num_classes: int, homophily: float) -> NDArray[np.float64]:
    """H [C, C]: `homophily` on the diagonal, the rest halving with each step around the circle.

    Example:
        >>> compatibility(5, 0.4).round(2)[0]
        array([0.4, 0.2, 0.1, 0.1, 0.2])
    """
    if num_classes < 2:
        raise InvalidArgumentError("classes", num_classes, "two or more")
    if not 0 <= homophily <= 1:
        raise InvalidArgumentError("homophily", homophily, "a share in [0, 1]")
    step = np.abs(np.subtract.outer(np.arange(num_classes), np.arange(num_classes)))
    step = np.minimum(step, num_classes - step)
    weight = 2.0 ** (num_classes // 2 - step)
    np.fill_diagonal(weight, 0)
    weight *= (1 - homophily) / weight.sum(axis=1, keepdims=True)
    np.fill_diagonal(weight, homophily)
    return np.asarray(weight)


def _class_order(sizes: IntArray, links: int, rng: np.random.Generator) -> IntArray:
    if links < 1:
        raise InvalidArgumentError("links", links, "an integer >= 1")
    if (sizes < links).any():
        raise InvalidArgumentError("y", f"a class of {sizes.min()} nodes", f"{links} or more each")
    classes = np.arange(len(sizes))
    first = rng.permutation(np.repeat(classes, links))
    rest = rng.permutation(np.repeat(classes, sizes - links))
    return np.concatenate([first, rest])


def _grow(
    labels: IntArray,
    compatible: NDArray[np.float64],
    links: int,
    seed_nodes: int,
    rng: np.random.Generator,
) -> IntArray:
    """One direction of every edge, [2, E]."""
    least = max(2, links * len(compatible))
    if not least <= seed_nodes <= len(labels):
        raise InvalidArgumentError("seed_nodes", seed_nodes, f"{least} to {len(labels)}")
    urns = _Urns(compatible, rng)
    path = 0 < compatible[0, 0] < 1
    edges: list[tuple[int, int]] = []
    for node, label in enumerate(labels.tolist()):
        if node >= seed_nodes:
            partners = urns.draw(label, links)
        elif node < 2:
            partners = []
        elif path:
            partners = [node - 1]
        else:
            partners = urns.draw(label, 1)
        urns.add(node, label, partners)
        edges += [(node, partner) for partner in partners]
    return np.array(edges, dtype=np.int64).reshape(-1, 2).T


class _Urns:
    """Earlier nodes by class, each as often as max(degree, 1): drawing costs O(C), not O(N).

    Lists and numbers of Python: for a handful of classes they are faster than arrays.
    """

    def __init__(self, compatible: NDArray[np.float64], rng: np.random.Generator) -> None:
        self._compatible: list[list[float]] = compatible.tolist()
        self._random = _uniform(rng)
        self._urns: list[list[int]] = [[] for _ in compatible]
        self._members = [0] * len(compatible)
        self._class_of: list[int] = []
        self._degree: list[int] = []

    def draw(self, label: int, count: int) -> list[int]:
        """Distinct nodes for a new node of a class; fewer where fewer are compatible."""
        weights = self._compatible[label]
        there = sum(n for n, weight in zip(self._members, weights, strict=True) if weight > 0)
        sizes = map(len, self._urns)
        bounds = list(accumulate(w * n for w, n in zip(weights, sizes, strict=True)))
        chosen: list[int] = []
        # Drawing again what was drawn before is drawing without replacement.
        while len(chosen) < min(count, there):
            urn = self._urns[bisect_right(bounds, next(self._random) * bounds[-1])]
            node = urn[int(next(self._random) * len(urn))]
            if node not in chosen:
                chosen.append(node)
        return chosen

    def add(self, node: int, label: int, partners: list[int]) -> None:
        """A new node with its links."""
        self._class_of.append(label)
        self._degree.append(len(partners))
        self._members[label] += 1
        self._urns[label].extend([node] * max(1, len(partners)))
        for partner in partners:
            # A node without links is in its urn once already.
            if self._degree[partner]:
                self._urns[self._class_of[partner]].append(partner)
            self._degree[partner] += 1


def _uniform(rng: np.random.Generator) -> Iterator[float]:
    while True:
        yield from rng.random(4096).tolist()
