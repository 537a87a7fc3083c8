"""Graphs and models for tests of stores, and blocks so small that there are many."""

from functools import cache

import pytest
import torch

import matcha_gnn as mg
from matcha_gnn.graphs.stored import matrix, plan, propagation, streaming
from matcha_gnn.kernels import reference

FEATURES, HOPS, WIDTH = 16, 3, 8


@cache
def source_model(classes=2, seed=10):
    shares = [1 / classes] * classes
    source = mg.datasets.csbm(
        600, FEATURES, degree=6, homophily=0.8, signal=2.5, shares=shares, seed=seed
    )
    model = mg.GPRGNN(FEATURES, classes, WIDTH, HOPS)
    mg.fit(model, source, epochs=60, seed=seed)
    return model


@cache
def target_graph(classes=2, seed=11):
    shares = [1 / classes] * classes
    return mg.datasets.csbm(
        700, FEATURES, degree=6, homophily=0.25, signal=2.5, shares=shares, seed=seed
    )


def set_blocks(monkeypatch: pytest.MonkeyPatch, numbers: int) -> None:
    """Let every block hold about so many numbers."""
    for module, name, value in (
        (plan, "MOST_BLOCK", 4 * numbers),
        (plan, "LEAST_BLOCK", 4 * numbers),
        (matrix, "ENTRIES", numbers),
        (matrix, "OUT_BYTES", 4 * numbers),
        (streaming, "FILE_BLOCK", 4 * numbers),
        (propagation, "READ_ROWS", numbers),
    ):
        monkeypatch.setattr(module, name, value)
    # The graph in memory adds 65,536 rows in float32 before it goes on in float64.
    monkeypatch.setattr(reference, "BLOCK", 64)


def largest(a: torch.Tensor, b: torch.Tensor) -> float:
    return float((a - b).abs().max())
