"""One table says what depends on a device; types that are not in it take the reference."""

import torch

import matcha_gnn as mg
from matcha_gnn.gamma.testing import tiny_graph, trained_model
from matcha_gnn.kernels import cpu, devices


def test_an_unknown_device_works_by_the_reference(monkeypatch):
    model, graph = trained_model(), tiny_graph(seed=1)
    expected = mg.gamma.run(model, graph, mg.T3A(), mg.Matcha(rounds=5)).probs
    monkeypatch.delitem(devices.DEVICES, "cpu")
    for name in ("mix", "class_sums", "Classifier"):
        monkeypatch.setattr(cpu, name, None)
    found = mg.gamma.run(model, graph, mg.T3A(), mg.Matcha(rounds=5)).probs
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
