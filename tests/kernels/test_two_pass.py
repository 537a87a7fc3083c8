"""The gradient of σ²_inter by way of Z equals that of autograd, and that from whole sums."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from matcha_gnn import functional, kernels
from matcha_gnn.gamma.hops import Hops, MixedSums
from matcha_gnn.kernels import reference, two_pass
from matcha_gnn.kernels.devices import DEVICES

SHAPES = [(1, 1, 1, 2), (5, 1, 3, 2), (97, 3, 1, 4), (1031, 6, 33, 40), (211, 10, 7, 1000)]
TOLERANCE = {torch.float32: 2e-4, torch.float64: 1e-10}


def draw(num_nodes, num_hops, width, num_classes, dtype):
    generator = torch.Generator().manual_seed(num_nodes)
    stack = torch.randn(num_nodes, num_hops, width, generator=generator, dtype=dtype)
    hop_weights = torch.rand(num_hops, generator=generator, dtype=dtype) + 0.1
    head = torch.nn.Linear(width, num_classes).to(dtype).requires_grad_(False)
    return Hops(stack + 1), hop_weights, head


def slope_by_autograd(stack, hop_weights, probs, min_share):
    hop_weights = hop_weights.double().requires_grad_()
    z = torch.einsum("nkd,k->nd", stack.double(), hop_weights)
    inter = functional.inter_variance(z, probs.double(), min_share)
    return torch.autograd.grad(inter, hop_weights)[0].numpy() / 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("whole", [True, False])
def test_both_ways_give_the_gradient_of_autograd(shape, dtype, whole, monkeypatch):
    monkeypatch.setattr(kernels, "whole_sums_pay", lambda hops, classes, place: whole)
    hops, hop_weights, head = draw(*shape, dtype)
    probs, sums, mass = hops.classify(hop_weights, head)
    assert isinstance(sums, MixedSums) is not whole
    exact = torch.einsum("nkd,k->nd", hops.stack.double(), hop_weights.double())
    expected = head.double()(exact).softmax(-1)
    torch.testing.assert_close(probs.double(), expected, atol=1e-5, rtol=1e-4)
    np.testing.assert_allclose(mass, expected.sum(0), rtol=1e-4)
    found = hops.between_slope(hop_weights.double().numpy(), probs, mass, sums, 1e-9)
    wanted = slope_by_autograd(hops.stack, hop_weights, probs, 1e-9)
    size = float(exact.square().sum())
    np.testing.assert_allclose(found / size, wanted / size, atol=TOLERANCE[dtype])


def test_sums_over_z_are_kept_where_a_second_pass_pays(monkeypatch):
    monkeypatch.setattr(kernels, "second_pass_pays", lambda stack, classes: True)
    hops, hop_weights, head = draw(97, 3, 1, 4, torch.float64)
    assert kernels.whole_sums_pay(3, 4, hops.device)
    probs, sums, mass = hops.classify(hop_weights, head)
    assert isinstance(sums, MixedSums)
    found = hops.between_slope(hop_weights.numpy(), probs, mass, sums, 1e-9)
    np.testing.assert_allclose(
        found, slope_by_autograd(hops.stack, hop_weights, probs, 1e-9), rtol=1e-8
    )


def test_a_class_without_mass_adds_nothing():
    hops, hop_weights, _ = draw(50, 4, 6, 3, torch.float64)
    probs = torch.rand(50, 3, dtype=torch.float64)
    probs[:, 1] = 0
    mixed = MixedSums(
        hop_weights.numpy(), two_pass.mixed_sums(hops.stack, hop_weights, probs, reference.mix)
    )
    found = hops.between_slope(hop_weights.numpy(), probs, probs.sum(0).numpy(), mixed, 1e-9)
    whole = hops.between_slope(
        hop_weights.numpy(), probs, probs.sum(0).numpy(), hops.class_sums(probs), 1e-9
    )
    np.testing.assert_allclose(found, whole, rtol=1e-10)


def test_blocks_do_not_show(monkeypatch):
    hops, hop_weights, head = draw(1031, 6, 33, 40, torch.float64)
    whole = two_pass.classify(hops.stack, hop_weights, head, reference.mix)
    slopes = two_pass.hop_slopes(hops.stack, whole[0], whole[1], reference.hop_dots)
    monkeypatch.setitem(DEVICES, "cpu", replace(DEVICES["cpu"], block_floats=5000))
    parts = two_pass.classify(hops.stack, hop_weights, head, reference.mix)
    torch.testing.assert_close(parts[0], whole[0])
    np.testing.assert_allclose(parts[1], whole[1], rtol=1e-10)
    np.testing.assert_allclose(
        two_pass.hop_slopes(hops.stack, whole[0], whole[1], reference.hop_dots), slopes, rtol=1e-10
    )


@pytest.mark.parametrize(
    ("num_hops", "few", "many"), [(1, 10_000, None), (10, 13, 14), (6, 16, 17)]
)
def test_the_choice_follows_the_counted_work(num_hops, few, many):
    stack = torch.empty(1, num_hops, 1)
    assert kernels.whole_sums_pay(stack.shape[1], few, stack.device)
    assert many is None or not kernels.whole_sums_pay(stack.shape[1], many, stack.device)


def test_the_loss_is_the_same_both_ways(monkeypatch):
    import matcha_gnn as mg

    graph = mg.datasets.csbm(200, 9, shares=(0.1,) * 10, seed=0)
    model = mg.GPRGNN(9, 10, hidden_channels=4, K=9)
    answers = []
    for pays in (True, False):
        monkeypatch.setattr(kernels, "whole_sums_pay", lambda hops, classes, place, pays=pays: pays)
        answers.append(mg.adapt(model, graph, strategy=mg.Matcha(lr=0.1, rounds=5)))
    torch.testing.assert_close(answers[0].gamma, answers[1].gamma, atol=1e-5, rtol=1e-4)
    np.testing.assert_allclose(answers[0].trace.loss, answers[1].trace.loss, rtol=1e-5)
