"""The four kinds of feature shift, on data whose kind is known."""

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal
from sklearn.mixture import GaussianMixture

from matcha_gnn.evidence.shift_kinds import (
    FeatureSample,
    FeatureStatistics,
    ShiftKind,
    estimate_shift,
    fit_mixture,
    log_densities,
    misfit,
)

CENTROIDS = torch.tensor([[2.0, 0.0, 0.0], [0.0, 2.0, 0.0], [-2.0, -1.0, 0.0]]).double()
SHARES = torch.tensor([0.5, 0.3, 0.2]).double()


def draw(shares, offset=(0.0, 0.0, 0.0), scale=1.0, number=6000, seed=0):
    rng = np.random.default_rng(seed)
    classes = rng.choice(3, number, p=shares)
    noise = rng.standard_normal((number, 3))
    centre = (SHARES @ CENTROIDS).numpy()
    points = centre + scale * (CENTROIDS.numpy()[classes] - centre) + noise + np.array(offset)
    return torch.from_numpy(points)


def source() -> FeatureStatistics:
    return FeatureStatistics(CENTROIDS, torch.eye(3).double(), SHARES)


@pytest.mark.parametrize("scale", [1.0, 0.8])
@pytest.mark.parametrize(
    ("shares", "offset", "expected"),
    [
        ((0.5, 0.3, 0.2), (0, 0, 0), ShiftKind.SAME),
        ((0.2, 0.2, 0.6), (0, 0, 0), ShiftKind.SHARES),
        ((0.5, 0.3, 0.2), (1.0, -0.5, 0.7), ShiftKind.OFFSET),
        ((0.2, 0.2, 0.6), (1.0, -0.5, 0.7), ShiftKind.BOTH),
    ],
)
def test_the_true_kind_is_found(shares, offset, expected, scale):
    shift = estimate_shift(FeatureSample.of(draw(shares, offset, scale)), source(), torch.zeros(3))
    assert shift.kind is expected
    np.testing.assert_allclose(shift.shares, shares, atol=0.04)


def test_the_offset_allows_for_the_fitted_distance_between_classes():
    """Classes half as far apart and other shares: the mean moves by less than shares alone say."""
    offset = (0.9, -0.4, 0.6)
    points = draw((0.9, 0.05, 0.05), offset, scale=0.5, number=20_000)
    shift = estimate_shift(FeatureSample.of(points), source(), torch.zeros(3))
    assert shift.kind is ShiftKind.BOTH
    np.testing.assert_allclose(shift.offset, offset, atol=0.15)


def test_a_misfit_of_the_source_is_no_evidence():
    rng = np.random.default_rng(1)
    # Skewed noise: a mixture of Gaussians gains by moving, though nothing has moved.
    centres = CENTROIDS.numpy()[rng.choice(3, 4000, p=SHARES.numpy())]
    points = torch.from_numpy(centres + rng.exponential(2.0, (4000, 3)) - 2.0)
    assert (
        estimate_shift(FeatureSample.of(points), source(), torch.zeros(3)).kind
        is not ShiftKind.SAME
    )
    excess = misfit(points, source())
    assert excess.max() > 1e-4
    assert estimate_shift(FeatureSample.of(points), source(), excess).kind is ShiftKind.SAME


def test_shares_agree_with_a_peer():
    points = draw((0.2, 0.2, 0.6), seed=3)
    peer = GaussianMixture(
        3, covariance_type="tied", means_init=CENTROIDS.numpy(), tol=1e-7, max_iter=500
    ).fit(points.numpy())
    ours = fit_mixture(points, CENTROIDS, SHARES, True, False)
    np.testing.assert_allclose(ours.shares, peer.weights_, atol=0.02)


def test_densities_are_the_normal_law():
    covariance = torch.tensor([[2.0, 0.5], [0.5, 1.0]]).double()
    points, means = torch.randn(5, 2).double(), torch.tensor([[0.0, 1.0], [2.0, -1.0]]).double()
    precise, across = np.linalg.inv(covariance.numpy()), points.T.numpy()
    common = 0.5 * np.einsum("pn,pq,qn->n", across, precise, across)
    common += 0.5 * np.linalg.slogdet(2 * np.pi * covariance.numpy())[1]
    ours = log_densities(across, means.numpy(), precise) - common
    for c, mean in enumerate(means):
        expected = multivariate_normal(mean.numpy(), covariance.numpy()).logpdf(points.numpy())
        np.testing.assert_allclose(ours[c], expected, rtol=1e-9)


def test_on_few_nodes_no_kind_gains():
    torch.testing.assert_close(misfit(draw(SHARES.numpy(), number=29), source()), torch.zeros(3))
