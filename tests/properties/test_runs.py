"""Whatever the graph: valid probabilities, and the same answer however its nodes are numbered."""

import copy
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from random_graphs import DEFAULT, FEATURE_KINDS, SURE, bounded, graphs, ways

import matcha_gnn as mg
from matcha_gnn.gamma.methods import METHODS
from matcha_gnn.gamma.models import BACKBONES
from matcha_gnn.gamma.strategies import STRATEGIES

WAYS = ways()
DIFFERENT = tuple(kind for kind in FEATURE_KINDS if kind != "near equal")
"""Where nodes differ by rounding alone, what is fitted to their differences does, too."""


def permuted(graph, order):
    """New node i is old node order[i]."""
    turned = graph.clone()
    turned.x, turned.edge_index = graph.x[order], order.argsort()[graph.edge_index]
    if "edge_weight" not in graph:
        # Of several weighted self loops of a node the last one counts, as in PyG.
        turned.edge_index = turned.edge_index.flip(1)
    return turned


def assert_valid(result, graph):
    nodes = graph.num_nodes
    for probs in (result.probs, result.probs_before):
        assert probs.shape == (nodes, 3)
        assert probs.isfinite().all()
        assert (probs >= 0).all()
        torch.testing.assert_close(probs.sum(1), probs.new_ones(nodes))
    if isinstance(result, mg.MatchaResult):
        assert result.gamma.isfinite().all()
        assert 0 <= result.pic_before <= 1
        assert 0 <= result.pic_after <= 1
    elif math.isfinite(result.taken.accuracy.value):
        accuracy = result.taken.accuracy
        assert 0 <= accuracy.low <= accuracy.value <= accuracy.high <= 1


@pytest.mark.parametrize("way", WAYS, ids=str)
@bounded
@given(graph=graphs())
def test_answers_are_valid_and_nothing_given_is_changed(way, graph):
    before, weights = copy.deepcopy(graph), copy.deepcopy(way.model.state_dict())
    result = way.adapt(graph)
    assert_valid(result, graph)
    assert all(torch.equal(before[name], graph[name]) for name in before.keys())  # noqa: SIM118
    assert all(torch.equal(weights[n], each) for n, each in way.model.state_dict().items())


@pytest.mark.parametrize("way", [way for way in WAYS if not way.draws_at_random], ids=str)
@bounded
@given(graph=graphs(kinds=DIFFERENT), seed=st.integers(0, 1000))
def test_answers_follow_the_nodes(way, graph, seed):
    result = way.adapt(graph)
    order = torch.randperm(graph.num_nodes, generator=torch.Generator().manual_seed(seed))
    other = way.adapt(permuted(graph, order))
    torch.testing.assert_close(other.probs, result.probs[order], atol=1e-6, rtol=0)


def test_all_that_is_registered_is_tried():
    for kinds, field in (
        (BACKBONES, "backbone"),
        (METHODS, "method"),
        (STRATEGIES, "strategy"),
    ):
        assert {getattr(way, field) for way in WAYS} - {SURE, DEFAULT} == set(kinds)
