"""Syn-Cora as published, and a split that leaks no feature row from source to target."""

import pytest
import torch
from torch_geometric.utils import contains_self_loops, homophily

from matcha_gnn.errors import InvalidArgumentError, InvalidFileError
from matcha_gnn.gamma.testing import tiny_graph
from matcha_paper.datasets import syn_cora
from matcha_paper.datasets.splits import row_hashes, split_by_features
from matcha_paper.datasets.statistics import Statistics, checked, statistics
from matcha_paper.datasets.syn_cora import HOMOPHILIES, RUNS, syn_cora_graph


def shared_rows(source, target):
    """Feature rows that train on the source and are tested on the target."""
    return set(row_hashes(source.x[source.train_mask])) & set(
        row_hashes(target.x[target.test_mask])
    )


# The split


def dealt(graph, seed):
    """The same rows on other nodes of their class, as every Syn-Cora file does."""
    order = torch.arange(graph.num_nodes)
    generator = torch.Generator().manual_seed(seed)
    for label in graph.y.unique():
        members = (graph.y == label).nonzero().squeeze(1)
        order[members] = members[torch.randperm(len(members), generator=generator)]
    again = graph.clone()
    again.x = graph.x[order]
    return again


def with_masks(graph):
    graph.train_mask, graph.test_mask = split_by_features(graph.x, graph.y)
    return graph


def test_rows_keep_their_side_wherever_they_are_dealt():
    source = with_masks(tiny_graph())
    target = with_masks(dealt(source, seed=1))
    assert not torch.equal(source.train_mask, target.train_mask)
    assert not shared_rows(source, target)


def test_equal_rows_are_on_one_side_even_across_classes():
    x = torch.eye(40)[torch.arange(120) % 40]
    y = torch.arange(120) // 60
    train, _ = split_by_features(x, y)
    for row in range(40):
        assert len(train[row::40].unique()) == 1


# The files


def test_no_feature_row_of_a_source_training_node_is_tested_on_the_target(data_root):
    graphs = syn_cora(root=data_root)
    for part in ("validation", "target"):
        assert shared_rows(graphs.source, getattr(graphs, part)) == set()


@pytest.mark.parametrize("nominal", HOMOPHILIES)
def test_the_published_graphs_are_as_published(nominal, data_root):
    for run in RUNS:
        graph = syn_cora_graph(nominal, run, data_root)
        assert graph.is_undirected()
        assert not contains_self_loops(graph.edge_index)
        assert graph.x.dtype == torch.float32
        assert set(graph.x.unique().tolist()) == {0.0, 1.0}
        assert torch.bincount(graph.y).tolist() == [298] * 5
        # An independent count of the statistic that was asserted on load.
        found = homophily(graph.edge_index, graph.y, method="node")
        assert found == pytest.approx(nominal, abs=0.025)
        assert statistics(graph).homophily == pytest.approx(found, abs=1e-5)


@pytest.mark.parametrize(
    ("options", "argument"), [({"source": 0.25}, "homophily"), ({"run": 4}, "run")]
)
def test_graphs_that_were_not_published_are_refused(options, argument, tmp_path):
    with pytest.raises(InvalidArgumentError, match=f"^{argument}: got"):
        syn_cora(**options, root=tmp_path)


# Published statistics


@pytest.mark.parametrize(
    "wrong", [{"nodes": 121}, {"edges": 1}, {"features": 2}, {"classes": 5}, {"homophily": 0.05}]
)
def test_a_graph_that_differs_from_what_was_published_is_refused_by_name(wrong):
    graph = tiny_graph()
    right = statistics(graph)
    assert checked(graph, right, "toy") is graph
    (name,) = wrong
    other = Statistics(**{**vars(right), **wrong})
    with pytest.raises(InvalidFileError, match=rf"^toy: {name}: got .*; allowed: .*published"):
        checked(graph, other, "toy")
