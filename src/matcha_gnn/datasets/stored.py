"""CSBM graphs that do not fit memory: drawn in blocks and written to a store."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from matcha_gnn.datasets.csbm import (
    IntArray,
    check_csbm,
    class_centres,
    class_features,
    class_sizes,
    direction,
    distinct,
    link_rates,
    upper_triangle,
)
from matcha_gnn.streams import Purpose, numpy_stream

if TYPE_CHECKING:
    from matcha_gnn.graphs.stored import GraphStore

EDGES = 1 << 20
"""Edges of a block."""
ROWS = 1 << 16
"""Rows of features of a block."""


def store_csbm(
    folder: str | Path,
    num_nodes: int = 5000,
    num_features: int = 2000,
    degree: float = 2.5,
    homophily: float = 0.8,
    signal: float = 1.34,
    shift: float = 0.0,
    shares: Sequence[float] = (0.5, 0.5),
    seed: int = 0,
) -> "GraphStore":
    """Draw a graph of `csbm`'s law into a folder, some 60 bytes of memory a node.

    Pairs of nodes are linked independently, so blocks of pairs can be drawn one after the other.
    The same seed gives another graph than `csbm` does.

    Args:
        folder: is created; must not hold a store.
        num_nodes: N.
        num_features: F.
        degree: see `csbm`, also for the following arguments.
        homophily: share of edges inside a class.
        signal: norm of a class centre.
        shift: norm of the displacement of all centres.
        shares: of the classes.
        seed: random seed.

    Example:
        >>> import tempfile
        >>> store = store_csbm(tempfile.mkdtemp(), num_nodes=1000, num_features=8, seed=1)
        >>> store.num_nodes, len(store.labels)
        (1000, 1000)
    """
    # Data sets in memory need no stores.
    from matcha_gnn.graphs.stored import GraphStore
    from matcha_gnn.graphs.stored.writing import Edges

    sizes = class_sizes(num_nodes, shares)
    check_csbm(num_features, homophily, signal, shift, len(shares), seed)
    rates = link_rates(sizes, degree, homophily)
    rng = numpy_stream(seed, Purpose.STORED_CSBM)
    order = rng.permutation(num_nodes).astype(np.int32)
    classes = np.empty(num_nodes, np.int64)
    classes[order] = np.repeat(np.arange(len(sizes)), sizes)
    centres = class_centres(len(sizes), num_features, signal)
    centres = centres + shift * direction(0, num_features)
    features = (
        class_features(rng, classes[start : start + ROWS], centres)
        for start in range(0, num_nodes, ROWS)
    )
    edges = (Edges(*order[pairs]) for pairs in _both_ways(rng, sizes, *rates))
    return GraphStore.write(folder, features, edges, symmetric=True, y=classes)


def _both_ways(
    rng: np.random.Generator, sizes: IntArray, within: NDArray[np.float64], across: float
) -> Iterator[IntArray]:
    """Blocks of edges in both directions, [2, E], where each class is one range of nodes."""
    starts = np.cumsum(sizes) - sizes
    for a, size in enumerate(sizes):
        for cells in _blocks(rng, int(size * (size - 1) // 2), min(1.0, within[a])):
            pairs = upper_triangle(cells) + starts[a]
            yield np.concatenate([pairs, pairs[::-1]], 1)
        for b in range(a + 1, len(sizes)):
            for cells in _blocks(rng, int(size * sizes[b]), min(1.0, across)):
                pairs = np.stack([cells // sizes[b] + starts[a], cells % sizes[b] + starts[b]])
                yield np.concatenate([pairs, pairs[::-1]], 1)


def _blocks(rng: np.random.Generator, total: int, rate: float) -> Iterator[IntArray]:
    """Each of `total` numbers with probability `rate`, about `EDGES` of them at a time."""
    step = max(1, int(EDGES / max(rate, 1e-300))) if rate > 0 else total or 1
    for start in range(0, total, step):
        yield start + distinct(rng, min(step, total - start), rate)
