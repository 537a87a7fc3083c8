"""Shifts meet their targets, by PyG's and NumPy's own counts, and leave the original alone."""

import numpy as np
import pytest
import torch
from scipy import stats
from torch_geometric.utils import homophily

from matcha_gnn.datasets import csbm
from matcha_gnn.errors import InvalidArgumentError, InvalidGraphError
from matcha_gnn.graphs.memory import content_hash
from matcha_gnn.transforms.shifts import (
    SHIFTS,
    feature_spread,
    shifted,
    with_class_shares,
    with_degree,
    with_edge_shares,
    with_feature_noise,
    with_homophily,
)

EDGE_SHARES = [[0.3, 0.1, 0.0], [0.1, 0.1, 0.05], [0.0, 0.05, 0.3]]
TARGETS = {
    "homophily": 0.3,
    "degree": 2.0,
    "edge-shares": EDGE_SHARES,
    "class-shares": [0.5, 0.3, 0.2],
    "attribute": 1.5,
    "noise": 0.7,
}


def undirected():
    graph = csbm(900, 8, degree=7, homophily=0.6, shares=(0.3, 0.3, 0.4), seed=2)
    # A weight that both directions share, from the pair it belongs to.
    low, high = graph.edge_index.sort(dim=0).values
    graph.edge_weight = 1 + ((low * 900 + high) % 97) / 97
    graph.train_mask = torch.arange(900) % 3 == 0
    graph.node_number = torch.arange(900)
    return graph


def directed():
    graph = undirected()
    columns = torch.arange(graph.num_edges) % 5 != 0
    return graph.edge_subgraph(columns)


def looped():
    """With self loops on some nodes and every edge of others repeated."""
    graph = undirected()
    loops = torch.arange(0, 900, 7).repeat(2, 1)
    again = graph.edge_index[:, (graph.edge_index < 100).all(0)]
    graph.edge_index = torch.cat([graph.edge_index, loops, again], 1)
    del graph.edge_weight
    return graph


GRAPHS = pytest.mark.parametrize("make", [undirected, directed, looped])


def hashes(graph):
    parts = (graph.x.to_dense(), graph.edge_index, graph.y, graph.train_mask)
    return [content_hash(part) for part in parts]


def columns_of(graph):
    return {tuple(column) for column in graph.edge_index.T.tolist()}


# All of them


@pytest.mark.parametrize("name", SHIFTS)
@GRAPHS
def test_the_original_is_untouched_and_the_same_seed_repeats(name, make):
    graph = make()
    before = hashes(graph)
    first = shifted(graph, {name: TARGETS[name]}, seed=3)
    second = shifted(graph, {name: TARGETS[name]}, seed=3)
    assert hashes(graph) == before
    assert hashes(first) == hashes(second)
    assert hashes(first) != before
    if name != "attribute":
        assert hashes(shifted(graph, {name: TARGETS[name]}, seed=4)) != hashes(first)


# Edges


@GRAPHS
@pytest.mark.parametrize("target", [0.0, 0.2, 0.6, 0.95, 1.0])
def test_homophily_is_met_to_within_one_edge(make, target):
    graph = make()
    reached = with_homophily(graph, target)
    edges = reached.num_edges
    assert homophily(reached.edge_index, reached.y, method="edge") == pytest.approx(
        target, abs=2 / edges
    )
    # Only one kind of edge goes: dropping both would reach the target too, with fewer edges.
    same, kept = (g.y[g.edge_index[0]] == g.y[g.edge_index[1]] for g in (graph, reached))
    assert int(kept.sum()) == int(same.sum()) or int((~kept).sum()) == int((~same).sum())
    assert columns_of(reached) <= columns_of(graph)


@GRAPHS
@pytest.mark.parametrize("target", [0.0, 1.37, 4.0])
def test_degree_is_met_to_within_one_edge(make, target):
    graph = make()
    reached = with_degree(graph, target)
    assert abs(reached.num_edges - target * 900) <= 2
    assert reached.num_nodes == 900
    assert columns_of(reached) <= columns_of(graph)


@pytest.mark.parametrize("make", [undirected, directed])
def test_class_to_class_edge_shares_are_met(make):
    graph = make()
    reached = with_edge_shares(graph, EDGE_SHARES)
    counts = np.zeros((3, 3))
    np.add.at(counts, tuple(reached.y[reached.edge_index].numpy()), 1)
    edges = reached.num_edges
    np.testing.assert_allclose(counts / edges, EDGE_SHARES, atol=2 / edges)
    before = np.zeros((3, 3))
    np.add.at(before, tuple(graph.y[graph.edge_index].numpy()), 1)
    # As many edges as possible: some wanted block is kept whole.
    wanted = np.asarray(EDGE_SHARES) > 0
    assert (before - counts)[wanted].min() <= 2


# Nodes


@GRAPHS
def test_class_shares_are_met_with_as_many_nodes_as_possible(make):
    graph = make()
    reached = with_class_shares(graph, [0.5, 0.3, 0.2])
    counts = torch.bincount(reached.y).numpy()
    assert np.abs(counts - counts.sum() * np.array([0.5, 0.3, 0.2])).max() <= 1
    present = torch.bincount(graph.y).numpy()
    assert (present == counts).any()
    # What stays is the induced subgraph, masks and features with it.
    number = reached.node_number
    assert torch.equal(reached.x, graph.x[number])
    assert torch.equal(reached.train_mask, graph.train_mask[number])
    inside = torch.isin(graph.edge_index, number).all(0)
    assert torch.equal(number[reached.edge_index], graph.edge_index[:, inside])


# Features


def test_feature_noise_is_normal_and_as_strong_as_asked():
    graph = undirected()
    noise = (with_feature_noise(graph, 0.7).x - graph.x).double().numpy() / feature_spread(graph)
    assert np.square(noise).mean() ** 0.5 == pytest.approx(0.7, rel=1e-5)
    assert stats.kstest(noise.ravel() / 0.7, "norm").pvalue > 1e-6
    assert torch.equal(with_feature_noise(graph, 0.0).x, graph.x)


# What is refused


def test_what_dropping_cannot_reach_is_refused():
    alike = with_homophily(undirected(), 1.0)
    with pytest.raises(InvalidArgumentError, match="0 between"):
        with_homophily(alike, 0.5)
    with pytest.raises(InvalidArgumentError, match="0 where the graph has none"):
        with_edge_shares(alike, EDGE_SHARES)


@pytest.mark.parametrize("name", ["homophily", "edge-shares", "class-shares"])
def test_shifts_of_classes_need_labels(name):
    graph = undirected()
    del graph.y
    with pytest.raises(InvalidGraphError, match=r"graph\.y: got None"):
        shifted(graph, {name: TARGETS[name]})
