"""Kinds of feature shift: label shift, attribute shift, both or none.

Node-only features u, taken before the first non-linearity and without any edge, follow one Gaussian
per class. On a target the class shares may differ (label shift), all nodes may be offset by one
vector (attribute shift), both, or neither. The four kinds are fitted by maximum likelihood in the
space in which source classes differ, and compared by BIC. The distance between classes is free in
all of them: a network separates the nodes it was trained on better than others.
"""

import enum
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from matcha_gnn.typing import FloatArray

SAMPLE = 10_000
"""Nodes that the mixtures are fitted on: more do not change the result."""
FEWEST = 30
"""Fewest nodes for which a shift is estimated."""
MISFIT_FACTOR = 2.0
"""A gain in likelihood counts where it exceeds this many times the gain on the source itself."""
_ITERATIONS, _TOLERANCE, _TINY = 300, 1e-6, 1e-12


class ShiftKind(enum.StrEnum):
    """How the node-only features of a target differ from those of the source."""

    SAME = "same"
    SHARES = "shares"
    OFFSET = "offset"
    BOTH = "both"

    @property
    def moves_shares(self) -> bool:
        """Whether class shares differ from the source's."""
        return self in (ShiftKind.SHARES, ShiftKind.BOTH)

    @property
    def moves_offset(self) -> bool:
        """Whether all nodes are offset by one vector."""
        return self in (ShiftKind.OFFSET, ShiftKind.BOTH)


class FeatureStatistics(NamedTuple):
    """Statistics of the source's node-only features.

    Attributes:
        centroids: mean of u per class, [C, D].
        covariance: of u within classes, [D, D].
        shares: of the classes, [C].
    """

    centroids: Tensor
    covariance: Tensor
    shares: Tensor

    def to(self, device: torch.device) -> "FeatureStatistics":
        """The same on another device."""
        return FeatureStatistics(*(each.to(device) for each in self))


class Mixture(NamedTuple):
    """One fitted kind of shift.

    Attributes:
        shares: of the classes, [C].
        offset: of all nodes, in discriminant coordinates, [P].
        scale: of the distances between classes.
        log_likelihood: per node, up to a constant that is the same for all kinds.
    """

    shares: Tensor
    offset: Tensor
    scale: float
    log_likelihood: float


@dataclass(frozen=True, eq=False)
class FeatureShift:
    """How node-only features differ between source and target.

    Attributes:
        kind: the best supported one.
        shares: estimated class shares of the target, [C]; the source's unless they differ.
        offset: what was added to u on the target, [D]; zero unless there is an offset.
        support: log-likelihood gained over "same" by each kind, less misfit and the BIC penalty of
            further parameters.
    """

    kind: ShiftKind
    shares: Tensor
    offset: Tensor
    support: dict[str, float]


class FeatureSample(NamedTuple):
    """The node-only features of a target that a fit needs.

    Attributes:
        points: u of every n-th node, n from `stride`, [M, D] in float64.
        mean: of u over all nodes, [D].
        number: N.
    """

    points: Tensor
    mean: Tensor
    number: int

    @classmethod
    def of(cls, u: Tensor) -> "FeatureSample":
        """From u of all nodes, [N, D]."""
        u = u.double()
        return cls(u[:: stride(len(u))], u.mean(0), len(u))


def stride(num_nodes: int) -> int:
    """The distance between sampled nodes: one in so many is taken."""
    return -(-num_nodes // SAMPLE)


def estimate_shift(
    sample: FeatureSample, source: FeatureStatistics, misfit: Tensor
) -> FeatureShift:
    """Choose among the four kinds.

    Args:
        sample: of the target's nodes.
        source: statistics of the source.
        misfit: from `misfit` on the source, [3].
    """
    gains = _gains(sample, source)
    freedom = len(source.shares) - 1
    penalty = 0.5 * freedom * torch.tensor(float(sample.number)).log().item()
    support = {ShiftKind.SAME: 0.0}
    for (kind, (gain, _)), excess in zip(gains.items(), misfit.tolist(), strict=True):
        moved = kind.moves_shares + kind.moves_offset
        support[kind] = sample.number * (gain - MISFIT_FACTOR * excess) - moved * penalty
    best = max(support, key=lambda kind: support[kind])
    shares = source.shares.double()
    if best.moves_shares:
        shares = gains[best][1].shares
    offset = torch.zeros_like(sample.mean)
    if best.moves_offset:
        offset = sample.mean - _expected_mean(shares, gains[best][1].scale, source)
    return FeatureShift(best, shares, offset, {str(kind): value for kind, value in support.items()})


def _expected_mean(shares: Tensor, scale: float, source: FeatureStatistics) -> Tensor:
    """The mean of u without an offset, with the fitted distance between classes, [D]."""
    centroids = source.centroids.double()
    centre = source.shares.double() @ centroids
    return centre + scale * (shares @ centroids - centre)


def misfit(u: Tensor, source: FeatureStatistics) -> Tensor:
    """Log-likelihood per node that each kind gains on the source itself, [3].

    There is no shift there: the gain is what Gaussians do not describe.
    """
    return torch.tensor([gain for gain, _ in _gains(FeatureSample.of(u), source).values()])


def _gains(
    sample: FeatureSample, source: FeatureStatistics
) -> dict[ShiftKind, tuple[float, Mixture]]:
    if sample.number < FEWEST:
        nothing = Mixture(source.shares.double(), 0 * sample.mean, 1.0, 0.0)
        return {kind: (0.0, nothing) for kind in ShiftKind if kind is not ShiftKind.SAME}
    points, means = discriminant(sample.points, source)
    shares = source.shares.double()
    fits = {
        kind: fit_mixture(points, means, shares, kind.moves_shares, kind.moves_offset)
        for kind in ShiftKind
    }
    same = fits.pop(ShiftKind.SAME).log_likelihood
    return {kind: (fit.log_likelihood - same, fit) for kind, fit in fits.items()}


def class_statistics(rows: Tensor, members: Tensor) -> tuple[Tensor, Tensor]:
    """Class means [C, D] and the covariance within classes [D, D] of rows [N, D]."""
    rows = rows.double()
    counts = members.sum(0)
    centroids = (members.T @ rows) / counts.clamp_min(1)[:, None]
    within = rows - members @ centroids
    return centroids, within.T @ within / max(1, len(rows) - len(counts))


def discriminant(u: Tensor, source: FeatureStatistics) -> tuple[Tensor, Tensor]:
    """Nodes [N, P] and class means [C, P] in whitened discriminant coordinates of the source."""
    centroids, covariance = source.centroids.double(), source.covariance.double()
    # The covariance is stored in float32: a variance below 1e-6 of its scale is rounding error.
    floor = float(1e-6 * covariance.trace() / len(covariance) + _TINY)
    values, axes = torch.linalg.eigh(covariance)
    whitening = axes / values.clamp_min(floor).sqrt()
    centre = source.shares.double() @ centroids
    means = (centroids - centre) @ whitening
    directions = torch.linalg.svd(means, full_matrices=False).Vh[: len(means) - 1].T
    return (u - centre) @ whitening @ directions, means @ directions


def fit_mixture(
    points: Tensor, means: Tensor, shares: Tensor, move_shares: bool, move_offset: bool
) -> Mixture:
    """Expectation maximisation of Gaussians at offset + scale · means with one covariance.

    On the host, wherever the points are: a cycle is some forty steps of a few microseconds each.

    Args:
        points: [N, P].
        means: of the source's classes, [C, P].
        shares: of the source's classes, [C]; kept unless `move_shares`.
        move_shares: fit the shares too.
        move_offset: fit the offset too; otherwise it is zero.

    Example:
        >>> points = torch.tensor([[-1.1], [-0.9], [-1.0], [1.0]], dtype=torch.double)
        >>> means, even = torch.tensor([[-1.0], [1.0]]).double(), torch.tensor([0.5, 0.5]).double()
        >>> fit_mixture(points, means, even, True, False).shares.round(decimals=2)
        tensor([0.7500, 0.2500], dtype=torch.float64)
    """
    across, centres, mixed = (
        np.ascontiguousarray(each.double().cpu().numpy()) for each in (points.T, means, shares)
    )
    width, number = across.shape
    second = across @ across.T / number
    floor = 1e-6 * second.trace() / width + _TINY
    average, scale, last = across.mean(1), 0.8, -np.inf
    offset = average - scale * (mixed @ centres) if move_offset else np.zeros(width)
    covariance = np.eye(width)
    for _ in range(_ITERATIONS):
        # The nearest covariance that has at least this variance in every direction.
        variances, axes = np.linalg.eigh(covariance)
        variances = variances.clip(floor)
        precise = (axes / variances) @ axes.T
        terms = log_densities(across, offset + scale * centres, precise)
        terms += np.log(mixed)[:, None]
        highest = terms.max(0)
        terms -= highest
        weights = np.exp(terms, out=terms)
        total = weights.sum(0)
        common = np.log(variances).sum() + np.vdot(precise, second)
        value = float((np.log(total).sum() + highest.sum()) / number - 0.5 * common)
        if abs(value - last) < _TOLERANCE:
            break
        last = value
        weights /= total
        found = weights @ across.T / number
        mass = weights.sum(1) / number
        if move_shares:
            mixed = mass.clip(1e-4) / mass.clip(1e-4).sum()
        centre, middle = (average, mass @ centres) if move_offset else (0 * average, 0 * centres[0])
        spread = centres - middle
        directions = spread @ precise
        fitted = np.vdot(found - mass[:, None] * centre, directions)
        apart = np.vdot(mass[:, None] * directions, spread)
        # Classes that do not differ have no distance to scale.
        scale = max(float(fitted / apart), 1e-2) if apart > 0 else scale
        offset = centre - scale * middle
        placed = offset + scale * centres
        cross = found.T @ placed
        covariance = second - cross - cross.T + (placed.T * mass) @ placed
    found_shares, found_offset = (
        torch.from_numpy(each).to(points.device) for each in (mixed, offset)
    )
    return Mixture(found_shares, found_offset, scale, last)


def log_densities(points: FloatArray, means: FloatArray, precise: FloatArray) -> FloatArray:
    """Gaussian log-densities of points [P, N] at each mean [C, P], [C, N].

    Up to a number for each point, the same for all means: −(xᵀ Λ x + log det 2πΛ⁻¹) / 2.

    Args:
        points: [P, N].
        means: [C, P].
        precise: Λ, the inverse of the covariance, [P, P].
    """
    towards = means @ precise
    densities: FloatArray = towards @ points
    densities -= 0.5 * (towards * means).sum(1)[:, None]
    return densities
