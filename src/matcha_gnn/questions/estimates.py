"""Accuracy from answers, and from answers and evidence together.

Nodes that are drawn equally often are a stratum; within it answers are even draws. What evidence
said of its share of true labels counts as a Beta distribution of that mean and width, which answers
update. Without evidence, or where answers contradict it, the distribution is Jeffreys'.
"""

from collections.abc import Sequence

import numpy as np
from scipy.stats import beta

from matcha_gnn.evidence.posterior import NORMAL_90, Interval
from matcha_gnn.questions.sampling import Mask
from matcha_gnn.typing import FloatArray

ERROR = 0.05
"""How often the lower end of an interval is too high, and as often the upper end is too low."""
JEFFREYS = 0.5
"""Hits, and misses, that nothing known is worth."""
RARE = 2.5
"""Standard deviations beyond which evidence is contradicted."""


def importance_weights(ratio: FloatArray, counted: Mask, size: int) -> FloatArray:
    """Weights with which the mean over drawn nodes is unbiased for the mean over a set, [..., T].

    The nodes were drawn without replacement, with any probabilities (Farquhar, Gal and Rainforth,
    2021, R_LURE).

    Args:
        ratio: how much more often than evenly each node was drawn from those left, [..., T].
        counted: which of the nodes belong to the set and have an answer, [..., T].
        size: nodes in the set.

    Example:
        >>> importance_weights(np.array([2.0, 1.0]), np.array([True, True]), 10).round(3)
        array([0.556, 1.   ])
    """
    number = np.cumsum(counted, -1)
    unseen = (size - number[..., -1:]) / np.maximum(size - number, 1)
    weights: FloatArray = np.where(counted, 1 + unseen * (1 / ratio - 1), 0.0)
    return weights


def weighted_mean(values: FloatArray, weights: FloatArray) -> FloatArray:
    """Mean over the nodes with a weight of values times weights, [..., T] to [...]."""
    mean: FloatArray = (weights * values).sum(-1) / np.maximum((weights != 0).sum(-1), 1)
    return mean


def beta_of(believed: Interval) -> tuple[float, float]:
    """Counts of hits and misses that evidence is worth: of its mean, and of its width of 90%.

    Example:
        >>> [round(each, 1) for each in beta_of(Interval(0.8, 0.65, 0.95))]
        [14.6, 3.6]
    """
    mean = min(max(believed.value, 1e-3), 1 - 1e-3)
    variance = ((believed.high - believed.low) / (2 * NORMAL_90)) ** 2
    strength = max(mean * (1 - mean) / max(variance, 1e-9) - 1, 2 * JEFFREYS)
    return mean * strength, (1 - mean) * strength


def updated_share(hits: float, drawn: float, size: int, counts: tuple[float, float]) -> Interval:
    """The share of hits in a set, from even draws without replacement and earlier counts.

    Example:
        >>> [round(each, 2) for each in updated_share(2, 3, 100, (JEFFREYS, JEFFREYS))]
        [0.62, 0.24, 0.94]
    """
    if drawn == size:
        return Interval(hits / drawn, hits / drawn, hits / drawn)
    right, wrong = counts[0] + hits, counts[1] + drawn - hits
    low, high = beta.ppf(np.array([ERROR, 1 - ERROR]), right, wrong).tolist()
    return Interval(right / (right + wrong), low, high)


def contradicted(hits: FloatArray, drawn: FloatArray, believed: Sequence[Interval]) -> bool:
    """Whether as many hits as this in all would be rare if evidence were right within its bounds.

    Args:
        hits: of each set, [S].
        drawn: from each, [S].
        believed: share of hits in each.
    """
    mean = np.array([each.value for each in believed])
    spread = max(each.high - each.low for each in believed) / (2 * NORMAL_90)
    variance = (drawn * mean * (1 - mean)).sum() + (drawn.sum() * spread) ** 2
    return bool(abs(hits.sum() - (drawn * mean).sum()) > RARE * np.sqrt(max(variance, 1e-9)))
