"""Contextual stochastic block model: a graph with chosen homophily, degree and features."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from matcha_gnn.errors import InvalidArgumentError, as_number, as_whole

if TYPE_CHECKING:
    from torch_geometric.data import Data

IntArray = NDArray[np.int64]
_FEATURE_ROWS = 1 << 16


def csbm(
    num_nodes: int = 5000,
    num_features: int = 2000,
    degree: float = 2.5,
    homophily: float = 0.8,
    signal: float = 1.34,
    shift: float = 0.0,
    shares: Sequence[float] = (0.5, 0.5),
    seed: int = 0,
) -> "Data":
    """Draw a graph in time and memory O(N F + E).

    Edges are simple and undirected. Within a class every node has `degree · homophily` expected
    neighbours; the other edges are between classes, for each pair of classes in proportion to the
    product of their sizes. With two equal classes this is the paper's model.

    Features are (centre of the class + shift + standard normal noise) / √F. The centres are the
    corners of a regular simplex of radius `signal`, the same for every seed, so that source and
    target graphs agree; with two classes they are ±signal·1/√F. `shift` moves all of them along
    1/√F. The paper prints centres ±0.03/√F·1 with unit noise, where the best possible accuracy is
    52%; its tables fit noise of variance 1/F, that is signal 0.03·√2000 ≈ 1.34 and shift
    0.02·√2000 ≈ 0.89.

    Args:
        num_nodes: N.
        num_features: F, at least the number of classes minus one.
        degree: the real average degree. (The published runs write d for twice this.) Its limit
            is reached when the smallest class, or the space between classes, is full of edges.
        homophily: expected share of edges inside a class.
        signal: norm of a class centre in units of the noise.
        shift: norm of the displacement of all centres in units of the noise.
        shares: class shares, summing to one; their number is the number of classes.
        seed: random seed.

    Returns:
        A PyG `Data` with `x` [N, F], `edge_index` [2, E] in both directions, and `y` [N].

    Example:
        >>> graph = csbm(num_nodes=1000, num_features=16, degree=4, seed=1)
        >>> graph.x.shape, graph.is_undirected()
        (torch.Size([1000, 16]), True)
    """
    from torch_geometric.data import Data

    sizes = class_sizes(num_nodes, shares)
    check_csbm(num_features, homophily, signal, shift, len(shares), seed)
    rates = link_rates(sizes, degree, homophily)
    rng = np.random.default_rng(seed)
    # Each class is one range of nodes while edges are drawn; then nodes are shuffled.
    order = rng.permutation(num_nodes)
    edges = _draw_edges(rng, sizes, *rates)
    labels = np.repeat(np.arange(len(sizes)), sizes)
    y = np.empty(num_nodes, np.int64)
    y[order] = labels
    both = order[np.concatenate([edges, edges[::-1]], axis=1)]
    centres = class_centres(len(sizes), num_features, signal)
    centres = centres + shift * direction(0, num_features)
    return Data(
        x=torch.from_numpy(class_features(rng, y, centres)),
        edge_index=torch.from_numpy(both),
        y=torch.from_numpy(y),
    )


def class_centres(num_classes: int, num_features: int, signal: float) -> NDArray[np.float64]:
    """Corners of a regular simplex of radius `signal`, [C, F].

    Example:
        >>> class_centres(2, 4, 1.0)
        array([[ 0.5,  0.5,  0.5,  0.5],
               [-0.5, -0.5, -0.5, -0.5]])
    """
    # Helmert's contrasts are an explicit basis of the simplex, the same on all machines.
    contrasts = np.zeros((num_classes - 1, num_classes))
    for j in range(1, num_classes):
        contrasts[j - 1, :j], contrasts[j - 1, j] = 1, -j
    contrasts /= np.linalg.norm(contrasts, axis=1, keepdims=True)
    coordinates = contrasts.T / np.linalg.norm(contrasts[:, 0])
    axes = np.stack([direction(j, num_features) for j in range(num_classes - 1)])
    return np.asarray(signal * coordinates @ axes)


def direction(index: int, num_features: int) -> NDArray[np.float64]:
    """Orthonormal cosine directions; the first is 1/√F in every coordinate."""
    place = (np.arange(num_features) + 0.5) / num_features
    wave = np.cos(np.pi * index * place)
    return np.asarray(wave / np.linalg.norm(wave))


def class_sizes(num_nodes: int, shares: Sequence[float]) -> IntArray:
    """Nodes of each class, [C]."""
    num_nodes = as_whole("num_nodes", num_nodes)
    try:
        given = np.asarray(shares, dtype=float)
    except (TypeError, ValueError):
        given = np.zeros(0)
    right = given.ndim == 1 and len(given) >= 2 and bool((given > 0).all())
    if not right or not np.isclose(given.sum(), 1):
        allowed = "two or more numbers > 0 that sum to 1"
        raise InvalidArgumentError("shares", repr(shares), allowed)
    bounds = np.rint(np.cumsum(given) * num_nodes).astype(np.int64)
    sizes = np.diff(bounds, prepend=0)
    if (sizes < 1).any():
        raise InvalidArgumentError("num_nodes", num_nodes, "enough for one node per class")
    return np.asarray(sizes)


def check_csbm(
    num_features: int,
    homophily: float,
    signal: float,
    shift: float,
    num_classes: int,
    seed: int,
) -> None:
    """Raise InvalidArgumentError for arguments that no such graph has."""
    as_whole("num_features", num_features, least=max(1, num_classes - 1))
    as_number("homophily", homophily, "a share in [0, 1]", least=0, most=1)
    for name, value in (("signal", signal), ("shift", shift)):
        as_number(name, value)
    as_whole("seed", seed, least=0, most=2**63 - 1)


def link_rates(
    sizes: IntArray, degree: float, homophily: float
) -> tuple[NDArray[np.float64], float]:
    """Probability of a link between two nodes of the same class [C], and of different classes."""
    num_nodes = int(sizes.sum())
    # Neighbours that a node of the smallest class, or an average node elsewhere, can have.
    inside, outside = int(sizes.min()) - 1, (num_nodes**2 - (sizes**2).sum()) / num_nodes
    shares = ((homophily, inside), (1 - homophily, outside))
    limit = min(room / share for share, room in shares if share > 0)
    allowed = f"0 to {limit:g} for these classes and this homophily"
    as_number("degree", degree, allowed, least=0, most=limit)
    within = degree * homophily / np.maximum(1, sizes - 1)
    return within, degree * (1 - homophily) / outside


def _draw_edges(
    rng: np.random.Generator, sizes: IntArray, within: NDArray[np.float64], across: float
) -> IntArray:
    """One direction of every edge, [2, E/2], where each class is one range of nodes."""
    starts = np.cumsum(sizes) - sizes
    edges = [np.empty((2, 0), np.int64)]
    for a, size in enumerate(sizes):
        triangle = distinct(rng, int(size * (size - 1) // 2), min(1.0, within[a]))
        edges.append(upper_triangle(triangle) + starts[a])
        for b in range(a + 1, len(sizes)):
            cells = distinct(rng, int(size * sizes[b]), min(1.0, across))
            edges.append(np.stack([cells // sizes[b] + starts[a], cells % sizes[b] + starts[b]]))
    return np.concatenate(edges, axis=1)


def distinct(rng: np.random.Generator, total: int, rate: float) -> IntArray:
    """Each of `total` numbers independently with probability `rate`, without visiting them all."""
    count = int(rng.binomial(total, rate))
    if count > total // 2:
        dropped = _sample(rng, total, total - count)
        kept = np.ones(total, dtype=bool)
        kept[dropped] = False
        return np.flatnonzero(kept)
    return _sample(rng, total, count)


def _sample(rng: np.random.Generator, total: int, count: int) -> IntArray:
    """`count` distinct numbers below `total`, uniformly; collisions are drawn again."""
    chosen = _sorted_once(rng.integers(total, size=count)) if count else np.empty(0, np.int64)
    while len(chosen) < count:
        more = _sorted_once(rng.integers(total, size=2 * (count - len(chosen)) + 8))
        place = np.searchsorted(chosen, more).clip(max=len(chosen) - 1)
        fresh = more[chosen[place] != more]
        # They are sorted: without a shuffle, small numbers would be preferred.
        fresh = rng.permutation(fresh)[: count - len(chosen)]
        chosen = np.sort(np.concatenate([chosen, fresh]))
    return chosen


def _sorted_once(numbers: IntArray) -> IntArray:
    """Sorted without repeats; ten times as fast as `np.unique`."""
    numbers.sort()
    return np.asarray(numbers[np.append(True, numbers[1:] != numbers[:-1])])


def upper_triangle(index: IntArray) -> IntArray:
    """Number → pair (i < j), counting column by column, exactly for any size in use."""
    j = ((1 + np.sqrt(1 + 8 * index.astype(np.float64))) / 2).astype(np.int64)
    # Float rounding can be off by one for large numbers.
    j -= (j * (j - 1) // 2 > index).astype(np.int64)
    j += ((j + 1) * j // 2 <= index).astype(np.int64)
    return np.stack([index - j * (j - 1) // 2, j])


def class_features(
    rng: np.random.Generator, y: IntArray, centres: NDArray[np.float64]
) -> NDArray[np.float32]:
    """Features [N, F] around class centres [C, F]: (centre + standard normal noise) / √F.

    Example:
        >>> class_features(np.random.default_rng(0), np.array([0, 1]), np.zeros((2, 4))).shape
        (2, 4)
    """
    num_features = centres.shape[1]
    x = np.empty((len(y), num_features), np.float32)
    centres = centres.astype(np.float32)
    for start in range(0, len(y), _FEATURE_ROWS):
        rows = slice(start, start + _FEATURE_ROWS)
        rng.standard_normal(dtype=np.float32, out=x[rows])
        x[rows] += centres[y[rows]]
    x /= np.float32(num_features**0.5)
    return x
