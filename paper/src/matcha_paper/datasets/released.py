"""The very graphs of the published CSBM runs: one stream of random numbers draws all of them."""

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from matcha_gnn.errors import InvalidArgumentError

if TYPE_CHECKING:
    from torch_geometric.data import Data

NODES, FEATURES, MU = 5000, 2000, 0.03
DRAWN: tuple[tuple[float, float, float], ...] = (
    (0.0, 5, 0.8),
    (0.0, 5, 0.2),
    (0.0, 10, 0.8),
    (0.0, 2, 0.8),
    (0.02, 5, 0.8),
    (0.02, 5, 0.2),
    (0.02, 10, 0.8),
    (0.02, 2, 0.8),
)
"""(delta_mu, d, h) of every graph, in the order in which the stream draws them."""


def released_csbm(d: float = 5, h: float = 0.8, delta_mu: float = 0.0) -> "Data":
    """One of the eight CSBM graphs on which the numbers of the paper were measured.

    The released code seeds NumPy's legacy generator once, with 0, and draws all graphs one after
    the other, in the order of `DRAWN`. All five published seeds share these graphs and differ in
    their training alone. `matcha_gnn.datasets.csbm` draws other graphs of the same model.

    Args:
        d: as the paper writes it: 5, 10 or 2, twice the real average degree.
        h: homophily, 0.8 or 0.2.
        delta_mu: shift of all features, 0 or 0.02. A shifted graph has edges of its own.

    Returns:
        5,000 nodes with 2,000 features `x`, `edge_index` in both directions, and `y`, which is 1
        for the first half.

    Example:
        >>> released_csbm(d=5, h=0.8).num_edges
        12714
    """
    wanted = (delta_mu, d, h)
    if wanted not in DRAWN:
        known = ", ".join(map(str, DRAWN))
        raise InvalidArgumentError("(delta_mu, d, h)", wanted, f"one of {known}")
    number = DRAWN.index(wanted)
    stream = np.random.RandomState()
    stream.set_state(_state_before(number))
    return _draw(stream, *DRAWN[number])


@cache
def _state_before(number: int) -> dict[str, Any]:
    """The generator's state when a graph's turn comes: those before it have been drawn."""
    if number == 0:
        return _state(np.random.RandomState(0))
    stream = np.random.RandomState()
    stream.set_state(_state_before(number - 1))
    _draw(stream, *DRAWN[number - 1])
    return _state(stream)


def _state(stream: np.random.RandomState) -> dict[str, Any]:
    return dict(stream.get_state(legacy=False))


def _draw(stream: np.random.RandomState, delta_mu: float, d: float, h: float) -> "Data":
    from torch_geometric.data import Data

    edges = draw_edges(stream, NODES, d * h / NODES, (d - d * h) / NODES)
    y = (np.arange(NODES) < NODES // 2).astype(np.int64)
    centres = np.where(y == 1, MU, -MU) + delta_mu
    x = (centres[:, None] * np.ones(FEATURES) + stream.normal(0, 1, (NODES, FEATURES))) / np.sqrt(
        FEATURES
    )
    return Data(
        x=torch.from_numpy(x.astype(np.float32)),
        edge_index=torch.from_numpy(np.concatenate([edges, edges[::-1]], axis=1)),
        y=torch.from_numpy(y),
    )


def draw_edges(
    stream: np.random.RandomState, nodes: int, same: float, other: float
) -> NDArray[np.int64]:
    """One direction of every edge, [2, E/2], by the numbers that pair after pair would draw.

    Each node decides on later nodes of its own class, then on all of the other class; the second
    class has decided on the first by then.

    Args:
        stream: NumPy's legacy generator.
        nodes: N, the first half of which is one class.
        same: probability of an edge inside a class.
        other: probability of an edge between the classes.
    """
    half, found = nodes // 2, []
    for i in range(nodes):
        end = half if i < half else nodes
        linked = [i + 1 + np.flatnonzero(stream.binomial(1, same, end - i - 1))]
        if i < half:
            linked.append(half + np.flatnonzero(stream.binomial(1, other, nodes - half)))
        partners = np.concatenate(linked)
        found.append(np.stack([np.full_like(partners, i), partners]))
    return np.concatenate(found, axis=1)
