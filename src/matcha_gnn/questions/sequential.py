"""A test of candidates against the source that may be looked at after every answer.

For each candidate the hypothesis is that it is worse than the source by more than a margin. A
non-negative process that starts at one and is not expected to grow where the hypothesis holds
(wealth of bets against it) reaches 1 / α with probability at most α, at whatever time one looks
(Ville's inequality). Proof and references: `docs/ask.md`.
"""

import numpy as np

from matcha_gnn.questions.sampling import IntArray, Mask
from matcha_gnn.typing import FloatArray

BETS = {0.3: 0.1, 0.7: 0.9}
"""Sizes of the bets, and the wealth that each starts with: the large one is fast where gains are
large, the small one grows where they are small."""
_TINY, _ROUNDING = 1e-300, 1e-9


class Bets:
    """Bets that a candidate gains at drawn nodes, all of them made before any answer.

    Nodes of a set are drawn one by one without replacement, with known weights. With u_i for how
    much more often than evenly node i is drawn from those left, and g_i in [−1, 1] for the gain
    there, a bet of size ℓ multiplies wealth by (ℓ (1 + g_i) + s_i) / u_i. Under the hypothesis the
    mean of ℓ (1 + g_i) over the nodes left has a known bound; what is missing to 1 is the mean of
    the s_i ≥ 0. So wealth is not expected to grow, however the s_i are spread: once like u_i, and
    once more where beliefs expect a loss, which makes wealth grow faster if they are right.

    A factor never falls when a gain rises, and no bet depends on an answer. So wealth does not fall
    when an answer becomes better for the candidate.

    Args:
        nodes: in the order in which they were drawn, [..., T].
        weights: with which they were drawn, [N].
        inside: the set, [N]; other nodes leave wealth as it is.
        beliefs: expected gain at each node, in [−1, 1], [N]; or None.
    """

    def __init__(
        self,
        nodes: IntArray,
        weights: FloatArray,
        inside: Mask,
        beliefs: FloatArray | None = None,
    ) -> None:
        self.hit: Mask = inside[nodes]
        self.size = int(inside.sum())
        self.left = self.size - _before(self.hit.astype(float))
        self.ratio = np.where(self.hit, self._relative(nodes, weights, inside), 1.0)
        self.spreads = [np.ones_like(self.ratio)]
        if beliefs is not None:
            losses = np.clip(1 - beliefs, 1e-3, 2)
            self.spreads.append(self._relative(nodes, weights * losses, inside) / self.ratio)

    def wealth(self, gains: FloatArray, least: float) -> FloatArray:
        """Wealth after each answer against the hypothesis that all gains add up to `least` or less.

        Args:
            gains: at the drawn nodes, [..., T]; −1 where the answer is not known.
            least: the sum over the whole set under the hypothesis.

        Returns:
            [..., T]; infinite from where the hypothesis has become impossible.
        """
        gains = np.where(self.hit, gains, 0.0)
        # Of the nodes left, the largest that the hypothesis allows.
        mean = (least - _before(gains)) / np.maximum(self.left, 1)
        possible = np.logical_and.accumulate(mean > -1 - _ROUNDING, -1)
        largest = 1 / np.maximum(1 + mean, _TINY)
        total = np.zeros_like(mean)
        for bet, share in BETS.items():
            size = np.minimum(bet, largest)
            spare = np.maximum(1 - size * (1 + mean), 0)
            for spread in self.spreads:
                factor = size * (1 + gains) / self.ratio + spare * spread
                growth = np.log(np.maximum(np.where(self.hit, factor, 1.0), _TINY))
                total += share / len(self.spreads) * np.exp(np.cumsum(growth, -1))
        return np.where(possible, total, np.inf)

    def _relative(self, nodes: IntArray, values: FloatArray, inside: Mask) -> FloatArray:
        """Values of drawn nodes over the mean of those that were left then, [..., T]."""
        drawn = np.where(self.hit, values[nodes], 0.0)
        never = values[inside].sum() - drawn.sum(-1, keepdims=True)
        all_drawn = self.hit.sum(-1, keepdims=True) == self.size
        left = np.where(all_drawn, 0.0, np.maximum(never, 0)) + _from_here(drawn)
        relative: FloatArray = drawn * self.left / np.maximum(left, _TINY)
        return relative


def adjusted(wealths: FloatArray, shares: FloatArray) -> FloatArray:
    """Wealth of each candidate that holds for all of them at once (closed testing).

    The smallest weighted mean over all groups of candidates that it belongs to. If it reaches
    1 / α, the candidate's hypothesis is rejected; one that is true is, with probability at most α.

    Args:
        wealths: of each candidate, [M, ...].
        shares: weights of the candidates, fixed before any answer, [M].

    Example:
        >>> adjusted(np.array([100.0, 0.0, 40.0]), np.array([0.5, 0.25, 0.25])).round(1)
        array([60.,  0., 20.])
    """
    order = wealths.argsort(0)
    rising, weights = np.take_along_axis(wealths, order, 0), shares[order]
    # Infinite wealth, or no share: the hypothesis is known to be false.
    known = np.isinf(rising)
    rising = np.where(known, 0.0, rising)
    found = np.full_like(wealths, np.inf)
    for k in np.flatnonzero(shares > 0):
        others = np.where((order == k) | known, 0.0, weights)
        sums, total = np.cumsum(others * rising, 0), shares[k] + np.cumsum(others, 0)
        joined = (shares[k] * wealths[k] + sums) / total
        found[k] = np.minimum(wealths[k], joined.min(0, initial=np.inf))
    return found


def lower_bound(bets: Bets, gains: FloatArray, error_rate: float) -> float:
    """A lower confidence bound of the mean gain over a set, at any time: the smallest not rejected.

    By the wealth after the last answer, so that it falls again where later answers are worse.

    Args:
        bets: on the set.
        gains: at the drawn nodes, [T].
        error_rate: probability that the bound is too high.
    """
    low, high = -1.0, 1.0
    if not bets.hit.any():
        return low
    for _ in range(20):
        middle = (low + high) / 2
        rejected = bets.wealth(gains, middle * bets.size)[-1] >= 1 / error_rate
        low, high = (middle, high) if rejected else (low, middle)
    return low


def _before(values: FloatArray) -> FloatArray:
    """Sums over what was drawn earlier."""
    sums: FloatArray = np.cumsum(values, -1) - values
    return sums


def _from_here(values: FloatArray) -> FloatArray:
    """Sums over what is drawn now and later."""
    sums: FloatArray = np.cumsum(values[..., ::-1], -1)[..., ::-1]
    return sums
