"""Sums over incoming edges against plain loops, however they are sorted and blocked."""

from dataclasses import replace

import pytest
import torch

from matcha_gnn.graphs.memory import Graph
from matcha_gnn.kernels.devices import DEVICES
from matcha_gnn.kernels.links import BeliefMessage

NODES = 40


def draw(kind):
    generator = torch.Generator().manual_seed(0)
    edges = torch.randint(0, NODES, (2, 150), generator=generator)
    if kind == "distinct":
        edges = edges.unique(dim=1)
    if kind == "none":
        edges = edges[:, :0]
    if kind == "one receiver":
        edges[1] = 7
    return edges, torch.randn(2, NODES, 3, generator=generator, dtype=torch.float64)


MESSAGE = BeliefMessage(torch.rand(3, 3, generator=torch.Generator().manual_seed(1)).double())


def message(sender, receiver):
    return MESSAGE.of(sender - receiver)


def by_loop(edges, sent, received, message):
    total = torch.zeros_like(received)
    for u, v in edges.T.tolist():
        if u != v:
            total[v] += message(sent[[u]].T, received[[v]].T)[:, 0]
    return total


KINDS = ["parallel", "distinct", "none", "one receiver"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("block", [16 * 3, 16 * 3 * 10, 1 << 20])
def test_message_sums_equal_a_loop_over_edges(kind, block, monkeypatch):
    monkeypatch.setitem(DEVICES, "cpu", replace(DEVICES["cpu"], block_floats=block))
    edges, (sent, received) = draw(kind)
    graph = Graph(torch.ones(NODES, 1), edges)
    found = graph.incoming.message_sums(MESSAGE, sent, received)
    torch.testing.assert_close(found, by_loop(edges, sent, received, message))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_neighbour_sums_equal_a_loop_over_edges(kind, dtype):
    edges, (values, _) = draw(kind)
    found = Graph(torch.ones(NODES, 1), edges).incoming.sums(values.to(dtype))
    expected = by_loop(edges, values, values, lambda sender, _: sender)
    torch.testing.assert_close(found, expected.to(dtype))
