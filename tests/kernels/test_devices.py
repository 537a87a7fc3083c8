"""One table says what depends on a device; types that are not in it take the reference."""

import pytest
import torch

import matcha_gnn as mg
from matcha_gnn import kernels
from matcha_gnn.gamma.testing import tiny_graph, trained_model
from matcha_gnn.kernels import cpu, devices, two_pass


@pytest.mark.parametrize("kind", ["mps", "xpu", "meta"])
def test_choices_are_made_for_unknown_devices_too(kind):
    assert kernels.whole_sums_pay(3, 2, torch.device(kind)) is True
    assert kernels.whole_sums_pay(10, 1000, torch.device(kind)) is False


def test_blocks_of_an_unknown_device_cover_all_nodes():
    stack = torch.empty(7, 3, 2, device="meta")
    assert list(two_pass.blocks(stack)) == [slice(0, 7)]
    assert devices.fast_code(stack) is None
    assert not kernels.second_pass_pays(stack, 2)


def test_an_unknown_device_works_by_the_reference(monkeypatch):
    model, graph = trained_model(), tiny_graph(seed=1)
    expected = mg.gamma.run(model, graph, mg.T3A(), mg.Matcha(rounds=5)).probs
    monkeypatch.delitem(devices.DEVICES, "cpu")
    for name in ("mix", "class_sums", "Classifier"):
        monkeypatch.setattr(cpu, name, None)
    found = mg.gamma.run(model, graph, mg.T3A(), mg.Matcha(rounds=5)).probs
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
