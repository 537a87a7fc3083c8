"""Labels and training nodes of a source, in the forms in which people have them."""

from functools import cache

import numpy as np
import pytest
import torch
from torch_geometric.nn import GCN

import matcha_gnn as mg
from matcha_gnn.gamma.testing import tiny_graph


@cache
def network():
    torch.manual_seed(0)
    return GCN(6, 8, num_layers=2, out_channels=3).eval()


def summary(graph, trained=None):
    return mg.summarise_source(network(), graph, trained).tensors()


def assert_same(one, other):
    assert one.keys() == other.keys()
    assert [name for name, tensor in one.items() if not torch.equal(tensor, other[name])] == []


def test_labels_may_be_a_column():
    graph = tiny_graph(0.8, seed=0)
    column = graph.clone()
    column.y = graph.y[:, None]
    assert_same(summary(column), summary(graph))
    assert column.y.shape == (graph.num_nodes, 1)


def test_without_a_mask_every_labelled_node_is_used():
    graph = tiny_graph(0.8, seed=0)
    graph.y[::3] = -1
    assert_same(summary(graph), summary(graph, graph.y >= 0))


FORMS = {
    "list of indices": lambda mask: mask.nonzero()[:, 0].tolist(),
    "array of indices": lambda mask: mask.nonzero()[:, 0].numpy(),
    "int32": lambda mask: mask.nonzero()[:, 0].int().numpy(),
    "list of bool": lambda mask: mask.tolist(),
    "array of bool": lambda mask: mask.numpy(),
}


@pytest.mark.parametrize("form", FORMS)
def test_training_nodes_may_be_a_list_or_an_array(form):
    graph = tiny_graph(0.8, seed=0)
    mask = torch.arange(graph.num_nodes) % 2 == 0
    assert_same(summary(graph, FORMS[form](mask)), summary(graph, mask))


@pytest.mark.parametrize(
    "nodes", [[], ["a"], [0.5, 1.5], [[0, 1], [2]], np.ones(120, np.uint8), "01", {1, 2}]
)
def test_other_training_nodes_are_refused_by_name(nodes):
    with pytest.raises(mg.InvalidArgumentError, match=r"^trained: got .*; allowed: bool \["):
        summary(tiny_graph(0.8, seed=0), nodes)


@pytest.mark.parametrize("name", ["train_mask", "test_mask"])
def test_masks_of_several_splits_are_refused_with_what_to_do(name):
    graph = tiny_graph(0.8, seed=0)
    graph[name] = torch.ones(graph.num_nodes, 10, dtype=torch.bool)
    with pytest.raises(mg.InvalidArgumentError, match=rf"take a column: graph\.{name}\[:, 0\]"):
        summary(graph)


@pytest.mark.parametrize("form", list(FORMS))
def test_test_nodes_are_left_out_in_whatever_form_they_are_given(form):
    graph = tiny_graph(0.8, seed=0)
    order = torch.arange(graph.num_nodes)
    graph.train_mask, graph.test_mask = order % 3 == 0, order % 3 == 1
    expected = summary(graph)
    graph.test_mask = FORMS[form](graph.test_mask)
    assert_same(summary(graph), expected)
    assert int(expected["held_out"]) == int((order % 3 == 2).sum())


def test_test_nodes_that_are_no_nodes_are_refused():
    graph = tiny_graph(0.8, seed=0)
    graph.test_mask = torch.ones(7, dtype=torch.bool)
    with pytest.raises(mg.InvalidArgumentError, match=r"^graph.test_mask: got .*; allowed: bool"):
        summary(graph)
