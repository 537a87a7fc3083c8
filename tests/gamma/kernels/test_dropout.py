"""Dropout from random bits has the law of torch's own dropout."""

import numpy as np
import pytest
import torch
from scipy import stats
from torch.nn import functional as F  # noqa: N812

from matcha_gnn.gamma.kernels import dropout
from matcha_gnn.gamma.kernels.dropout import MIN_ENTRIES, WORD, masked_dropout

RATES = [0.1, 0.3, 0.5, 0.75]
# Two-sided tail that a right implementation leaves once in ten million tests; the seeds are
# fixed, so a pass stays a pass.
TAIL = 1e-7
SIDE = 512
FAST = (SIDE, SIDE)
SLOW = (60, 70)
assert SLOW[0] * SLOW[1] < MIN_ENTRIES <= SIDE * SIDE


def mask(rate, shape=FAST, seed=0):
    """Which entries were kept, as 0 and 1."""
    torch.manual_seed(seed)
    return masked_dropout(torch.ones(shape), rate)


def within_binomial(kept, total, rate):
    return stats.binomtest(int(kept), total, 1 - rate).pvalue > TAIL


def assert_uncorrelated(first, second):
    """Two sets of bits that should be independent: z-test of their correlation."""
    first, second = first.flatten().double(), second.flatten().double()
    z = np.corrcoef(first, second)[0, 1] * len(first) ** 0.5
    assert abs(z) < stats.norm.isf(TAIL / 2)


# What happens to an entry


@pytest.mark.parametrize("shape", [FAST, SLOW, (257, 1023), (4096, 17)])
@pytest.mark.parametrize("rate", RATES)
def test_entries_are_zero_or_kept_bit_for_bit(shape, rate):
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    torch.manual_seed(0)
    out = masked_dropout(x, rate)
    assert out.shape == x.shape
    kept = out != 0
    assert 0 < kept.sum() < x.numel()
    assert torch.equal(out, torch.where(kept, x, 0))


@pytest.mark.parametrize("shape", [FAST, SLOW, (4096, 17)])
def test_the_given_buffer_is_filled_and_returned(shape):
    x, buffer = torch.randn(shape), torch.full(shape, 7.0)
    torch.manual_seed(3)
    out = masked_dropout(x, 0.5, out=buffer)
    assert out.data_ptr() == buffer.data_ptr()
    torch.manual_seed(3)
    assert torch.equal(buffer, masked_dropout(x, 0.5))


# How often


@pytest.mark.parametrize("rate", [*RATES, 0.01, 0.999, 1 / 3])
@pytest.mark.parametrize("shape", [FAST, SLOW])
def test_the_rate_is_within_binomial_bounds(rate, shape):
    kept = mask(rate, shape)
    assert within_binomial(kept.sum(), kept.numel(), rate)


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("axis", [0, 1])
def test_counts_of_rows_and_columns_are_binomial(rate, axis):
    """Dependence within a row or column would widen or narrow the spread of its count."""
    counts = torch.stack([mask(rate, seed=seed).sum(axis) for seed in range(4)]).double()
    spread = (counts - SIDE * (1 - rate)).square().sum() / (SIDE * rate * (1 - rate))
    low, high = stats.chi2.ppf([TAIL / 2, 1 - TAIL / 2], counts.numel())
    assert low < spread < high


@pytest.mark.parametrize("remainder", [0, 1, 17, 31])
@pytest.mark.parametrize("rate", RATES)
def test_the_entries_after_the_last_full_word_have_the_rate_too(remainder, rate, monkeypatch):
    monkeypatch.setattr(dropout, "MIN_ENTRIES", 0)
    size = 2 * WORD + remainder
    tail = torch.stack([mask(rate, (1, size), seed)[0, size - 31 :] for seed in range(200)])
    assert within_binomial(tail.sum(), tail.numel(), rate)
    assert within_binomial(tail[:, -1].sum(), 200, rate), "the very last entry"


@pytest.mark.parametrize("rate", RATES)
def test_first_two_moments_are_those_of_torch(rate):
    """Sums over rows of scaled features: equal mean, and spread within the F test's bounds."""
    x = torch.rand(1024, 256, generator=torch.Generator().manual_seed(1)) + 0.5
    torch.manual_seed(2)
    ours = masked_dropout(x, rate).double().sum(1) / (1 - rate)
    theirs = F.dropout(x, rate).double().sum(1)
    noise = (x.double().square().sum(1) * rate / (1 - rate)).sqrt()
    z = [(sums - x.double().sum(1)) / noise for sums in (ours, theirs)]
    assert stats.ttest_ind(*z, equal_var=False).pvalue > TAIL
    ratio = float(z[0].var() / z[1].var())
    low, high = stats.f.ppf([TAIL / 2, 1 - TAIL / 2], 1023, 1023)
    assert low < ratio < high
    assert stats.kstest(z[0].numpy(), "norm").pvalue > TAIL


# Independence


@pytest.mark.parametrize("shape", [FAST, SLOW])
def test_successive_calls_are_independent(shape):
    torch.manual_seed(0)
    x = torch.ones(shape)
    first, second = masked_dropout(x, 0.5), masked_dropout(x, 0.5)
    assert_uncorrelated(first, second)
    # One word later in the stream must not repeat either.
    assert_uncorrelated(first.flatten()[1:], second.flatten()[:-1])


# The seed
