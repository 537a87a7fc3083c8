"""Every fast kernel agrees with its reference implementation."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from matcha_gnn import kernels
from matcha_gnn.kernels import cpu, reference, two_pass
from matcha_gnn.kernels.devices import DEVICES

SHAPES = [(1, 1, 1, 2), (3, 1, 5, 2), (7, 10, 32, 2), (513, 4, 8, 3), (1030, 6, 33, 9)]


def draw(num_nodes, num_hops, width, num_classes):
    generator = torch.Generator().manual_seed(num_nodes)
    stack = torch.randn(num_nodes, num_hops, width, generator=generator)
    weight = torch.randn(num_classes, width, generator=generator)
    bias = torch.randn(num_classes, generator=generator)
    return stack, weight, bias, torch.randn(num_hops, generator=generator)


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(cpu, "SUMMED", 10)
    monkeypatch.setattr(cpu, "GROUP", 3)
    monkeypatch.setitem(DEVICES, "cpu", replace(DEVICES["cpu"], block_floats=5000))


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("shape", SHAPES)
def test_fast_classify_equals_a_plain_head_and_softmax(shape):
    stack, weight, bias, hop_weights = draw(*shape)
    logits = reference.hop_logits(stack, weight)
    arguments = (stack, logits, bias[:-1] - bias[-1], reference.node_sums(stack))
    probs, sums, mass = cpu.Classifier(*arguments)(hop_weights)
    exact = stack.double()
    expected = (
        torch.einsum("nkd,k->nd", exact, hop_weights.double()) @ weight.double().T + bias.double()
    ).softmax(-1)
    torch.testing.assert_close(probs.double(), expected, atol=2e-5, rtol=1e-4)
    np.testing.assert_allclose(
        sums, np.einsum("nc,nkd->ckd", expected, exact), atol=1e-4 * len(stack), rtol=1e-3
    )
    np.testing.assert_allclose(mass, expected.sum(0), rtol=1e-4)
    expected = reference.Classifier(*arguments)(hop_weights)
    torch.testing.assert_close(probs, expected[0], atol=1e-6, rtol=1e-5)
    np.testing.assert_allclose(sums, expected[1], atol=1e-4, rtol=1e-4)
    np.testing.assert_allclose(mass, expected[2], rtol=1e-5)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("shape", SHAPES)
def test_fast_class_sums_equal_the_reference(shape):
    stack = draw(*shape)[0]
    weights = torch.randn(shape[0], shape[3])
    expected = np.einsum("nc,nkd->ckd", weights.double(), stack.double())
    np.testing.assert_allclose(cpu.class_sums(stack, weights), expected, atol=1e-4, rtol=1e-4)
    np.testing.assert_allclose(reference.class_sums(stack, weights), expected, atol=1e-4, rtol=1e-4)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("shape", SHAPES)
def test_fast_mix_equals_the_reference(shape):
    stack, _, _, hop_weights = draw(*shape)
    torch.testing.assert_close(cpu.mix(stack, hop_weights), reference.mix(stack, hop_weights))
    exact = reference.mix(stack.double(), hop_weights.double())
    torch.testing.assert_close(cpu.mix(stack, hop_weights).double(), exact, atol=1e-4, rtol=1e-4)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("shape", SHAPES)
def test_fast_slopes_and_gram_equal_the_reference_in_double_precision(shape):
    stack = draw(*shape)[0] + 1
    probs, directions = (
        torch.rand(shape[0], shape[3]),
        torch.randn(shape[3], shape[2]).double().numpy(),
    )
    exact = stack.double()
    mean, size = reference.node_sums(exact) / len(stack), float(exact.square().sum())
    slopes = two_pass.hop_slopes(exact, probs.double(), directions, reference.hop_dots)
    close = {"atol": 1e-6 * size * shape[3], "rtol": 1e-5}
    np.testing.assert_allclose(cpu.hop_slopes(stack, probs, directions), slopes, **close)
    np.testing.assert_allclose(kernels.hop_slopes(stack, probs, directions), slopes, **close)
    form = reference.gram(exact, mean)
    np.testing.assert_allclose(kernels.gram(stack, mean), form, atol=1e-6 * size)


def test_mix_keeps_gradients_where_they_are_asked_for():
    stack, hop_weights = torch.randn(5, 3, 2), torch.randn(3, requires_grad=True)
    (gradient,) = torch.autograd.grad(kernels.mix(stack, hop_weights).sum(), hop_weights)
    torch.testing.assert_close(gradient, stack.sum((0, 2)))


def test_sums_over_blocks_equal_sums_at_once(monkeypatch):
    stack = torch.randn(1000, 3, 4, dtype=torch.float64)
    weights = torch.rand(1000, 2, dtype=torch.float64)
    mean = stack.mean(0).numpy()
    whole = [
        reference.class_sums(stack, weights),
        reference.gram(stack, mean),
        reference.node_sums(stack),
    ]
    monkeypatch.setattr(reference, "BLOCK", 7)
    parts = [
        reference.class_sums(stack, weights),
        reference.gram(stack, mean),
        reference.node_sums(stack),
    ]
    for a, b in zip(whole, parts, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-10)


def test_gram_of_many_nodes_keeps_its_digits():
    stack = torch.randn(30_001, 4, 32, generator=torch.Generator().manual_seed(0)).relu()
    mean = stack.double().mean(0).numpy()
    exact = reference.gram(stack.double(), mean)
    np.testing.assert_allclose(reference.gram(stack, mean), exact, atol=1e-6 * exact.max())


def test_gram_equals_numpy():
    stack = torch.randn(50, 3, 4, dtype=torch.float64)
    flat = (stack - stack.mean(0)).transpose(0, 1).flatten(1).numpy()
    np.testing.assert_allclose(reference.gram(stack, stack.mean(0).numpy()), flat @ flat.T)


@pytest.mark.parametrize("broken", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("num_classes", [2, 5])
def test_logits_that_are_not_finite_give_predictions_that_are_not(broken, num_classes):
    stack, weight, bias, hop_weights = draw(600, 3, 4, num_classes)
    logits = reference.hop_logits(stack, weight)
    logits[1, 0, 17] = broken
    apply = cpu.Classifier(stack, logits, bias[:-1] - bias[-1], reference.node_sums(stack))
    probs, sums, mass = apply(hop_weights)
    assert probs[17].isnan().all()
    assert probs[np.arange(600) != 17].isfinite().all()
    assert np.isnan(sums).all()
    assert np.isnan(mass).all()


def test_no_nodes_have_sums_of_zero():
    stack = torch.empty(0, 3, 4)
    assert cpu.mix(stack, torch.ones(3)).shape == (0, 4)
    assert not cpu.class_sums(stack, torch.empty(0, 2)).any()
    assert not cpu.hop_slopes(stack, torch.empty(0, 2), np.ones((2, 4))).any()


def test_the_result_does_not_depend_on_timing():
    stack, weight, bias, hop_weights = draw(2000, 5, 8, 3)
    logits = reference.hop_logits(stack, weight)
    apply = cpu.Classifier(stack, logits, bias[:-1] - bias[-1], reference.node_sums(stack))
    first = apply(hop_weights)[1]
    assert all(np.array_equal(first, apply(hop_weights)[1]) for _ in range(20))


def test_everything_works_without_the_compiler():
    code = """
import sys
sys.modules["triton"] = None
import matcha_gnn as mg
graph = mg.datasets.csbm(num_nodes=300, num_features=16, shares=(0.1,) * 10, seed=0)
model = mg.GPRGNN(16, 10, hidden_channels=8, K=9)
mg.fit(model, graph, epochs=2)
for strategy in (mg.Guarded(), mg.Matcha(lr=0.01, rounds=3)):
    assert mg.adapt(model, graph, strategy=strategy).probs.isfinite().all()
assert sys.modules["triton"] is None
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_on_other_devices_the_reference_runs(monkeypatch):
    monkeypatch.delitem(DEVICES, "cpu")
    stack = torch.randn(20, 3, 4)
    weights = torch.rand(20, 2)
    np.testing.assert_array_equal(
        kernels.class_sums(stack, weights), reference.class_sums(stack, weights)
    )


def test_double_precision_uses_the_reference():
    stack = torch.randn(20, 3, 4, dtype=torch.float64)
    weights = torch.rand(20, 2, dtype=torch.float64)
    expected = np.einsum("nc,nkd->ckd", weights, stack)
    np.testing.assert_allclose(kernels.class_sums(stack, weights), expected, atol=1e-12)
