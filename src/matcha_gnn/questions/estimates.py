"""Accuracy from answers, and from answers and evidence together.

Answers alone give importance-weighted means, with intervals. What evidence said before them counts
as a Beta distribution with its mean and width, which the answers update. Where the answers would be
rare under it, it is not believed, and they stand alone.
"""

from collections.abc import Sequence

import numpy as np
from scipy.stats import beta, betabinom

from matcha_gnn.evidence.posterior import NORMAL_90, Interval
from matcha_gnn.questions.sampling import Mask
from matcha_gnn.typing import FloatArray

ERROR = 0.05
"""How often the lower end of an interval is too high, and as often the upper end is too low."""


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


def share_estimate(hits: FloatArray, weights: FloatArray, size: int) -> Interval:
    """The share of hits in a set of `size` nodes, from hits and importance weights, [T] each.

    The interval is that of Clopper and Pearson for as many even draws as the weights are worth.

    Example:
        >>> share_estimate(np.array([1.0, 1.0, 0.0]), np.ones(3), 100)  # doctest: +ELLIPSIS
        Interval(value=0.66..., low=0.13..., high=0.98...)
    """
    if not weights.any():
        return Interval(np.nan, 0.0, 1.0)
    right, wrong = _even_draws(hits, weights)
    value = right / (right + wrong)
    if int((weights != 0).sum()) == size:
        return Interval(value, value, value)
    low = float(beta.ppf(ERROR, right, wrong + 1)) if right else 0.0
    high = float(beta.ppf(1 - ERROR, right + 1, wrong)) if wrong else 1.0
    return Interval(value, low, high)


def _even_draws(hits: FloatArray, weights: FloatArray) -> tuple[float, float]:
    """Hits and misses of as many even draws as the weights are worth."""
    value = float(np.clip(weighted_mean(hits, weights), 0, 1))
    draws = float(weights.sum() ** 2 / (weights**2).sum())
    return value * draws, (1 - value) * draws


def updated_share(
    hits: FloatArray, weights: FloatArray, size: int, believed: Interval
) -> Interval | None:
    """The share of hits by evidence and answers together; None where they contradict each other.

    Args:
        hits: of the answers, [T].
        weights: of importance, [T].
        size: nodes in the set.
        believed: what evidence says of the share, with bounds of 90%.

    Example:
        >>> few = np.array([1.0, 0.0]), np.ones(2)
        >>> [round(each, 2) for each in updated_share(*few, 100, Interval(0.8, 0.65, 0.95))]
        [0.77, 0.62, 0.9]
        >>> updated_share(np.zeros(5), np.ones(5), 100, Interval(0.95, 0.9, 1.0)) is None
        True
    """
    mean = min(max(believed.value, 1e-3), 1 - 1e-3)
    variance = ((believed.high - believed.low) / (2 * NORMAL_90)) ** 2
    strength = mean * (1 - mean) / max(variance, 1e-9) - 1
    if strength <= 0 or int((weights != 0).sum()) == size:
        return share_estimate(hits, weights, size)
    first, second = mean * strength, (1 - mean) * strength
    right, wrong = _even_draws(hits, weights) if weights.any() else (0.0, 0.0)
    number, seen = round(right + wrong), round(right)
    foretold = betabinom(number, first, second)
    if min(foretold.cdf(seen), foretold.sf(seen - 1)) < ERROR / 2:
        return None
    first, second = first + right, second + wrong
    low, high = beta.ppf(np.array([ERROR, 1 - ERROR]), first, second).tolist()
    return Interval(first / (first + second), low, high)


def combined(parts: Sequence[Interval], shares: Sequence[float]) -> Interval:
    """The mean of parts by their shares; distances to their ends add up as squares.

    That is the method of variance estimates recovery (Zou and Donner, 2008). A part of which
    nothing is known adds all of its share to the interval.

    Example:
        >>> parts = [Interval(0.9, 0.6, 1.0), Interval(0.5, 0.1, 0.9)]
        >>> [round(each, 3) for each in combined(parts, [0.5, 0.5])]
        [0.7, 0.45, 0.906]
    """
    pairs = [(share, part) for share, part in zip(shares, parts, strict=True) if share > 0]
    value = sum(share * part.value for share, part in pairs)
    known = [(share, part) for share, part in pairs if np.isfinite(part.value)]
    middle = sum(share * part.value for share, part in known)
    below = sum((share * (part.value - part.low)) ** 2 for share, part in known) ** 0.5
    above = sum((share * (part.high - part.value)) ** 2 for share, part in known) ** 0.5
    unknown = sum(share for share, part in pairs if not np.isfinite(part.value))
    return Interval(value, max(0.0, middle - below), min(1.0, middle + above + unknown))
