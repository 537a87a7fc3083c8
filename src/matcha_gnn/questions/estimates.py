"""Accuracy from answers: importance-weighted means, and intervals around them."""

from collections.abc import Sequence

import numpy as np
from scipy.stats import beta

from matcha_gnn.evidence.posterior import Interval
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
    answered = int((weights != 0).sum())
    if not answered:
        return Interval(np.nan, 0.0, 1.0)
    value = float(np.clip(weighted_mean(hits, weights), 0, 1))
    if answered == size:
        return Interval(value, value, value)
    draws = float(weights.sum() ** 2 / (weights**2).sum())
    right, wrong = value * draws, (1 - value) * draws
    low = float(beta.ppf(ERROR, right, wrong + 1)) if right else 0.0
    high = float(beta.ppf(1 - ERROR, right + 1, wrong)) if wrong else 1.0
    return Interval(value, low, high)


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
