"""Which nodes to ask about: an order that is drawn once, before any answer is known.

Where all candidates agree, an answer says nothing about which of them is better. So most questions
are drawn from the nodes on which candidates disagree; every tenth is drawn from the others, as
accuracy cannot be estimated without them. Evidence of the classes decides how much of the questions
each candidate gets. It may be wrong: the test in `sequential` knows with which weights nodes were
drawn, and is valid for any.
"""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from matcha_gnn.streams import Purpose, numpy_stream
from matcha_gnn.typing import FloatArray

IntArray: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]

AGREED_EVERY = 10
"""Every tenth question is about a node on which all candidates agree."""
EVEN = 0.1
"""What candidates share evenly; evidence divides the rest."""
WITHIN = 25
"""Answers after which a decision is wanted: candidates that take more get less."""
ERROR_RATE = 0.05
"""Probability of taking a candidate that is worse than the source by more than `MARGIN`."""
MARGIN = 0.01
"""Loss of accuracy that is tolerated; what changes fewer labels than this cannot lose more."""


def disagreements(labels: IntArray) -> Mask:
    """Where each candidate differs from the source, [M − 1, N]; labels [M, N], the source first."""
    found: Mask = labels[1:] != labels[0]
    return found


def believed_gains(labels: IntArray, prior: FloatArray) -> FloatArray:
    """Expected gain over the source at each node, [M − 1, N], by class probabilities [N, C]."""
    chosen = prior[np.arange(labels.shape[1]), labels].astype(np.float64)
    gains: FloatArray = chosen[1:] - chosen[0]
    return gains


def candidate_shares(labels: IntArray, prior: FloatArray | None) -> FloatArray:
    """How much of the questions and of the error rate each candidate gets, [M − 1].

    Nothing for candidates that change so few labels that they cannot lose more than the margin.
    The others share a tenth evenly, and the rest by the squares of what they are worth: the
    expected gain, less where more than `WITHIN` answers are needed to show that it is no loss.

    Args:
        labels: of the candidates, the source's first, [M, N].
        prior: class probabilities [N, C], or None.

    Example:
        >>> labels = np.array([[0, 0, 0], [1, 1, 0], [0, 1, 1]])
        >>> candidate_shares(labels, None)
        array([0.5, 0.5])
        >>> sure = np.array([[0.0, 1.0], [0.0, 1.0], [1.0, 0.0]])
        >>> candidate_shares(labels, sure)
        array([0.95, 0.05])
    """
    changed = disagreements(labels).mean(1)
    tested = changed > MARGIN
    even: FloatArray = tested / max(1, int(tested.sum()))
    if prior is None:
        return even
    gains = np.maximum(believed_gains(labels, prior).mean(1), 0) * tested
    # At a node that changes, the mean gain beyond that of the hypothesis; bets on it grow by about
    # half its square.
    beyond = (gains + MARGIN) / np.maximum(changed, MARGIN)
    worth = gains * np.minimum(1, WITHIN * beyond**2 / 2 / np.log(1 / ERROR_RATE))
    if not worth.any():
        return even
    shares: FloatArray = EVEN * even + (1 - EVEN) * worth**2 / (worth**2).sum()
    return shares


def node_weights(labels: IntArray, shares: FloatArray) -> FloatArray:
    """How likely a node is drawn beside others, [N]; zero where all candidates agree.

    A candidate's share is spread evenly over the nodes that it changes. A node that only
    candidates without a share change gets as little as the least of the others.
    """
    apart = disagreements(labels)
    weights: FloatArray = (shares / np.maximum(apart.sum(1), 1)) @ apart
    disputed = apart.any(0)
    least = weights[weights > 0].min(initial=np.inf)
    weights[disputed & (weights == 0)] = least if np.isfinite(least) else 1.0
    return weights


def draw_order(weights: FloatArray, count: int, seed: int) -> IntArray:
    """The first nodes of the order, [T], T ≤ count; a longer order begins with a shorter one.

    Within the disputed nodes (positive weight) and within the others, nodes are drawn one by one
    without replacement, with probabilities proportional to their weights: in the order of
    exponential variables divided by the weights.

    Example:
        >>> draw_order(np.array([0.0, 1.0, 1.0, 0.0]), 3, seed=0)
        array([1, 2, 0])
    """
    keys = numpy_stream(seed, Purpose.QUESTIONS).exponential(size=len(weights))
    disputed = np.flatnonzero(weights > 0)
    agreed = np.flatnonzero(weights <= 0)
    first = _smallest(disputed, keys[disputed] / weights[disputed], count)
    second = _smallest(agreed, keys[agreed], count)
    # Sorted by the place that each has if neither kind runs out.
    rank = np.arange(count)
    places = rank + rank // (AGREED_EVERY - 1), (rank + 1) * AGREED_EVERY - 1
    places = places[0][: len(first)], places[1][: len(second)]
    together = np.concatenate(places).argsort(kind="stable")
    return np.concatenate([first, second])[together][:count]


def _smallest(nodes: IntArray, keys: FloatArray, count: int) -> IntArray:
    """Nodes with the smallest keys, in their order."""
    if count < len(nodes):
        few = np.argpartition(keys, count)[:count]
        nodes, keys = nodes[few], keys[few]
    return nodes[keys.argsort()]
