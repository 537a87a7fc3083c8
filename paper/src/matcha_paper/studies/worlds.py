"""Generated graphs that plain block models are not, for the harm study.

Nodes have unequal weights (power-law degrees), classes unequal degrees and homophily, topics within
classes that features and edges follow, directed edges, bag-of-words features, and features that are
noisy, missing or moved. Source and target of a shift are two draws of one world with other numbers.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch_geometric.data import Data
from torch_geometric.utils import coalesce, remove_self_loops, to_undirected

Array = NDArray[np.float64]


@dataclass(frozen=True)
class World:
    """How a graph is drawn.

    Attributes:
        shares: of the classes.
        homophily: chance that an edge stays in its sender's class; one number, or one per class.
        degree: edges per node (undirected ones count once at each end).
        nodes: N.
        features: F.
        signal: distance of a class centre from the origin, in units of the noise.
        class_degrees: relative degree of each class.
        tail: exponent of the Pareto weights of nodes; none for equal weights.
        topics: per class.
        topic_signal: distance of a topic from its class centre.
        topic_pull: chance that an edge inside a class stays in its sender's topic.
        directed: keep the directions of edges.
        words: binary bags of words in place of Gaussian features.
        noise: standard deviation of the features' noise.
        missing: share of the features that are zero for all nodes.
        moved: how far the centre of the first class moves.
        offset: how far all nodes move.
    """

    shares: tuple[float, ...] = (0.5, 0.5)
    homophily: float | tuple[float, ...] = 0.8
    degree: float = 4.0
    nodes: int = 3000
    features: int = 200
    signal: float = 1.4
    class_degrees: tuple[float, ...] | None = None
    tail: float | None = None
    topics: int = 1
    topic_signal: float = 0.0
    topic_pull: float = 0.0
    directed: bool = False
    words: bool = False
    noise: float = 1.0
    missing: float = 0.0
    moved: float = 0.0
    offset: float = 0.0

    def draw(self, seed: int, meaning: int = 0) -> Data:
        """A labelled graph.

        Args:
            seed: of nodes and edges.
            meaning: seed of what classes and topics look like; the same for source and target.
        """
        rng = np.random.default_rng([seed, 1])
        classes = np.sort(rng.choice(len(self.shares), self.nodes, p=np.array(self.shares)))
        topics = rng.integers(0, self.topics, self.nodes)
        x = self._features(classes, topics, rng, np.random.default_rng([meaning, 2]))
        edges = torch.from_numpy(self._edges(classes, topics, rng))
        edges, _ = remove_self_loops(edges)
        edges = coalesce(edges) if self.directed else to_undirected(edges)
        return Data(torch.from_numpy(x), edges, y=torch.from_numpy(classes))

    def _edges(
        self, classes: NDArray[np.int64], topics: NDArray[np.int64], rng: np.random.Generator
    ) -> NDArray[np.int64]:
        number = len(self.shares)
        weights = np.ones(self.nodes)
        if self.tail is not None:
            weights = np.minimum(1 + rng.pareto(self.tail - 1, self.nodes), self.nodes**0.5)
        if self.class_degrees is not None:
            weights = weights * np.array(self.class_degrees)[classes]
        edges = int(self.nodes * self.degree / (1 if self.directed else 2))
        senders = _weighted(weights, edges, rng)
        stay = np.broadcast_to(self.homophily, number)[classes[senders]]
        mass = np.bincount(classes, weights, number)
        others: Array = np.tile(mass.astype(np.float64), (number, 1))
        np.fill_diagonal(others, 0)
        others /= others.sum(1, keepdims=True)
        away = _rows(others[classes[senders]], rng)
        to_class = np.where(rng.random(edges) < stay, classes[senders], away)
        pulled = (to_class == classes[senders]) & (rng.random(edges) < self.topic_pull)
        to_topic = np.where(pulled, topics[senders], rng.integers(0, self.topics, edges))
        receivers = np.empty(edges, dtype=np.int64)
        groups, wanted = classes * self.topics + topics, to_class * self.topics + to_topic
        for group in np.unique(wanted):
            here = np.flatnonzero(groups == group)
            asked = wanted == group
            if len(here):
                receivers[asked] = here[_weighted(weights[here], int(asked.sum()), rng)]
            else:
                receivers[asked] = senders[asked]
        return np.stack([senders, receivers])

    def _features(
        self,
        classes: NDArray[np.int64],
        topics: NDArray[np.int64],
        rng: np.random.Generator,
        meaning: np.random.Generator,
    ) -> NDArray[np.float32]:
        width, number = self.features, len(self.shares)
        axes = _directions(meaning, number * (1 + self.topics) + 2, width)
        centres = self.signal * axes[:number]
        if number == 2:
            centres = self.signal * np.stack([axes[0], -axes[0]])
        away = self.topic_signal * axes[number : number * (1 + self.topics)]
        means = centres[classes] + (away[classes * self.topics + topics] if self.topics > 1 else 0)
        means = means + self.offset * axes[-1]
        means[classes == 0] += self.moved * axes[-2]
        if self.words:
            rates = meaning.normal(-3.0, 1.0, width)
            logits = rates + np.sqrt(width) * means / 2 + rng.normal(0, 0.3, (self.nodes, 1))
            x = (rng.random((self.nodes, width)) < 1 / (1 + np.exp(-logits))).astype(np.float32)
            if self.noise > 1:
                flipped = rng.random(x.shape) < 0.02 * (self.noise - 1)
                x = np.where(flipped, 1 - x, x)
        else:
            x = means + self.noise * rng.normal(size=(self.nodes, width))
            x = x / np.sqrt(width)
        if self.missing:
            x[:, meaning.random(width) < self.missing] = 0
        found: NDArray[np.float32] = x.astype(np.float32)
        return found


def _weighted(weights: Array, number: int, rng: np.random.Generator) -> NDArray[np.int64]:
    total = np.cumsum(weights)
    found: NDArray[np.int64] = np.searchsorted(total, rng.random(number) * total[-1], side="right")
    least: NDArray[np.int64] = np.minimum(found, len(weights) - 1)
    return least


def _rows(chances: Array, rng: np.random.Generator) -> NDArray[np.int64]:
    """One column drawn per row of chances."""
    found: NDArray[np.int64] = (chances.cumsum(1) < rng.random((len(chances), 1))).sum(1)
    least: NDArray[np.int64] = np.minimum(found, chances.shape[1] - 1)
    return least


def _directions(rng: np.random.Generator, number: int, width: int) -> Array:
    """Orthonormal directions, [number, width]."""
    found: Array = np.linalg.qr(rng.normal(size=(width, number)))[0].T
    return found
