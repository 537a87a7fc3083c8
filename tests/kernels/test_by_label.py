"""Sums over the nodes of each label, both ways, against a loop."""

from dataclasses import replace

import pytest
import torch

from matcha_gnn.kernels.by_label import by_products, sums_by_label
from matcha_gnn.kernels.devices import DEVICES


@pytest.mark.parametrize("block", [1, 40, 1 << 20])
def test_both_ways_equal_a_loop(block, monkeypatch):
    monkeypatch.setitem(DEVICES, "cpu", replace(DEVICES["cpu"], block_floats=block))
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(0, 3, (50,), generator=generator)
    values = torch.randn(50, 2, generator=generator, dtype=torch.float64)
    wanted = torch.zeros(4, 2, dtype=torch.float64)
    for label, row in zip(labels.tolist(), values, strict=True):
        wanted[label] += row
    torch.testing.assert_close(sums_by_label(labels, values, 4), wanted)
    torch.testing.assert_close(by_products(labels, values, torch.zeros_like(wanted)), wanted)
