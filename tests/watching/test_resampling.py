"""Resampled graphs are like their source."""

import numpy as np
import pytest
import torch

import matcha_gnn as mg
from matcha_gnn.metrics import edge_homophily
from matcha_gnn.watching.resampling import resampled


def by_loops(edges, drawn):
    """The reference implementation: copies are linked as the nodes they are copies of."""
    linked = {tuple(edge) for edge in edges.T.tolist()}
    number = len(drawn)
    return {(a, b) for a in range(number) for b in range(number) if (drawn[a], drawn[b]) in linked}


def test_copies_are_linked_as_their_nodes_are():
    data = mg.datasets.csbm(40, 3, degree=5, seed=0)
    data.x[:, 0] = torch.arange(40)
    data.edge_weight = torch.rand(data.num_edges)
    data.rank = torch.arange(40)
    data.edge_kind = torch.arange(data.num_edges)
    drawn = resampled(mg.unlabelled(data), seed=3)
    nodes = drawn.x[:, 0].long().tolist()
    assert drawn.num_nodes == 40
    assert set(map(tuple, drawn.edge_index.T.tolist())) == by_loops(data.edge_index, nodes)
    ends = [(nodes[a], nodes[b]) for a, b in drawn.edge_index.T.tolist()]
    known = zip(map(tuple, data.edge_index.T.tolist()), data.edge_weight.tolist(), strict=True)
    weights = dict(known)
    assert drawn.edge_weight.tolist() == [weights[each] for each in ends]
    extras = drawn.extras.values(torch.float32)
    assert extras["rank"].tolist() == nodes
    assert [tuple(data.edge_index[:, k].tolist()) for k in extras["edge_kind"].tolist()] == ends


def test_degree_and_homophily_are_the_source_s_on_average():
    data = mg.datasets.csbm(1500, 3, degree=6, homophily=0.7, seed=0)
    graph = mg.unlabelled(data)
    graph = mg.Graph(torch.arange(1500.0)[:, None], graph.edge_index)
    draws = [resampled(graph, seed) for seed in range(10)]
    edges = np.mean([g.edge_index.shape[1] for g in draws])
    assert edges == pytest.approx(data.num_edges, rel=0.03)
    inside = [edge_homophily(g.edge_index, data.y[g.x[:, 0].long()]) for g in draws]
    assert np.mean(inside) == pytest.approx(edge_homophily(data.edge_index, data.y), abs=0.02)
    assert len({g.fingerprint for g in draws}) == 10
    assert resampled(graph, 4).fingerprint == draws[4].fingerprint


def test_sparse_features_stay_sparse():
    data = mg.datasets.csbm(60, 5, seed=0)
    data.x = torch.where(data.x > 0, data.x, 0.0)
    dense = resampled(mg.unlabelled(data), 1)
    data.x = data.x.to_sparse_csr()
    sparse = resampled(mg.unlabelled(data), 1)
    assert sparse.x.layout == torch.sparse_csr
    assert sparse.x.to_dense().equal(dense.x)


def test_a_graph_without_edges():
    graph = mg.Graph(torch.ones(5, 2), torch.zeros(2, 0, dtype=torch.long))
    assert resampled(graph, 0).edge_index.shape == (2, 0)
