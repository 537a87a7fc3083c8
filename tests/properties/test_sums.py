"""Sums over nodes: their two forms agree, and losses keep their range."""

from functools import cache

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from random_graphs import CLASSES, FEATURES, bounded

import matcha_gnn as mg
from matcha_gnn import functional
from matcha_gnn.gamma.losses import LOSSES
from matcha_gnn.gamma.methods import Prediction, View
from matcha_gnn.graphs.memory import Graph

K, WIDTH = 2, 4


@st.composite
def hops(draw, least=1):
    """A stack [N, K+1, D], probabilities [N, C] and c [K+1]."""
    nodes = draw(st.integers(least, 40))
    numbers = torch.Generator().manual_seed(draw(st.integers(0, 2**20)))
    kind = draw(st.sampled_from(["normal", "far", "equal", "near equal", "sparse"]))
    stack = torch.randn(nodes, K + 1, WIDTH, generator=numbers, dtype=torch.float64)
    stack = {
        "normal": stack,
        "far": stack + 1e3,
        "equal": stack[:1].expand_as(stack).clone(),
        "near equal": stack[:1] + 1e-9 * stack,
        "sparse": stack.relu() * (stack > 1),
    }[kind]
    sharp = draw(st.sampled_from([0.0, 1.0, 30.0, 1e4]))
    logits = sharp * torch.randn(nodes, CLASSES, generator=numbers, dtype=torch.float64)
    weights = torch.randn(K + 1, generator=numbers, dtype=torch.float64)
    return stack, logits.softmax(1), weights


@cache
def model():
    """γ are its hop weights."""
    found = mg.GPRGNN(FEATURES, CLASSES, hidden_channels=WIDTH, K=K).double().requires_grad_(False)
    found.head = torch.nn.Linear(WIDTH, CLASSES).double().requires_grad_(False)
    found.head.weight.copy_(torch.linspace(-1, 1, WIDTH * CLASSES).view(CLASSES, WIDTH).sin())
    found.head.bias.copy_(torch.tensor([0.3, -0.2, 0.0]))
    return found


def view_of(stack, gamma):
    nodes = Graph(torch.ones(len(stack), FEATURES), torch.zeros(2, 0, dtype=torch.long))
    return View(model(), nodes, mg.Hops(stack), gamma, 0)


@bounded
@given(hops(least=2), st.sampled_from([-100.0, -1.0, 1e-3, 7.0]))
def test_pic_is_a_share_of_variance_and_does_not_change_with_the_scale_of_gamma(drawn, scale):
    stack, probs, weights = drawn
    prediction = Prediction(probs)
    value, slope = mg.PIC().from_sums(view_of(stack, weights), prediction, None)
    other, scaled_slope = mg.PIC().from_sums(view_of(stack, scale * weights), prediction, None)
    assert 0 <= value <= 1
    np.testing.assert_allclose(other, value, atol=1e-8)
    # Where the classes lie as far apart as they can, the slope is rounding alone.
    within = 1e-6 * np.abs(slope).max() + 1e-12
    np.testing.assert_allclose(scale * scaled_slope, slope, atol=within)
    # A function that the scale of γ does not change has no slope along γ.
    assert abs(slope @ weights.numpy()) <= within * float(weights.norm())
    plain = mg.PIC()(mg.Hops(stack).mix(weights), probs, probs)
    assert 0 <= float(plain) <= 1


@bounded
@given(hops(least=2), st.sampled_from([1e-3, 0.5, 7.0, 1e5]))
def test_steins_estimate_does_not_change_with_the_scale_of_gamma(drawn, scale):
    stack, _, weights = drawn
    gram = np.einsum("nkd,nld->kl", stack.numpy(), stack.numpy()) / len(stack)
    forms = gram, gram[0] * np.array([0.5, 0.4, 0.3]), 0.5 * gram[0, 0]
    value, slope = functional.scaled_stein_risk(weights.numpy(), *forms)
    other, scaled_slope = functional.scaled_stein_risk(scale * weights.numpy(), *forms)
    np.testing.assert_allclose(other, value, rtol=1e-9, atol=1e-9 * gram[0, 0])
    np.testing.assert_allclose(
        scale * scaled_slope, slope, rtol=1e-6, atol=1e-9 * np.abs(slope).max() + 1e-12
    )


@bounded
@given(hops(least=2), st.sampled_from(sorted(set(LOSSES) - {"sure"})))
def test_losses_from_sums_are_those_on_representations(drawn, name):
    stack, probs, weights = drawn
    loss, view = LOSSES[name](), view_of(stack, weights)
    value, slope = loss.from_sums(view, Prediction(probs), loss.prepare(view))
    c = weights.clone().requires_grad_(True)
    z = torch.einsum("nkd,k->nd", stack, c)
    plain = loss(z, model().head(z), probs)
    (expected,) = torch.autograd.grad(plain, c)
    size = float(stack.square().sum(2).mean()) + 1
    # Variances of nodes that are nearly equal have few digits.
    np.testing.assert_allclose(value, plain.item(), rtol=1e-6, atol=1e-9 * size)
    spread = float((stack - stack.mean(0)).norm() / stack.norm().clamp_min(1e-30))
    if spread > 1e-6 or spread == 0:
        np.testing.assert_allclose(
            slope, expected.numpy(), rtol=1e-5, atol=1e-5 * float(expected.abs().max()) + 1e-9
        )
