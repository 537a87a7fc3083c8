"""Networks are given every field of the graph that they ask for, and never a label."""

import copy

import pytest
import torch
import torch_geometric.nn as pyg
from torch import nn

import matcha_gnn as mg
import pyg_networks as nets

ASKS = {
    nets.EdgeGAT: lambda net, g: net(g.x, g.edge_index, g.edge_attr),
    nets.EdgeAPPNP: lambda net, g: net(g.x, g.edge_index, g.edge_attr),
    nets.EdgeNN: lambda net, g: net(g.edge_attr, g.x, g.edge_index, num_nodes=g.num_nodes),
    nets.PositionNet: lambda net, g: net(g.pos, g.x, g.edge_index),
    nets.RelationNet: lambda net, g: net(g.x, g.edge_index, g.edge_type),
    nets.DataNet: lambda net, g: net(g),
}
HAVE_HOP_WEIGHTS = [build for build in ASKS if build is not nets.EdgeGAT]


def untrained(build):
    torch.manual_seed(0)
    return build().eval()


def target():
    return nets.graphs_with_fields()[1]


def before(model, graph, strategy=mg.Matcha(rounds=1)):  # noqa: B008 (immutable)
    return mg.adapt(model, graph, strategy=strategy).probs_before


def same(got, expected):
    torch.testing.assert_close(got, expected.detach(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("build", ASKS)
def test_with_added_hops_the_first_prediction_is_the_networks_own(build):
    net, graph = untrained(build), target()
    same(before(mg.add_hops(net), graph), ASKS[build](net, graph).softmax(1))


@pytest.mark.parametrize("build", HAVE_HOP_WEIGHTS)
def test_wrapped_the_first_prediction_is_the_networks_own(build):
    net, graph = untrained(build), target()
    same(before(mg.wrap(net), graph), ASKS[build](net, graph).softmax(1))


def test_weights_and_further_fields_go_together():
    net, graph = untrained(nets.PositionNet), copy.copy(target())
    graph.edge_weight = torch.rand(graph.num_edges)
    expected = net(graph.pos, graph.x, graph.edge_index, graph.edge_weight).softmax(1)
    same(before(mg.wrap(net), graph), expected)


def layers_by_name():
    conv = pyg.GATConv(nets.FEATURES, nets.CLASSES, edge_dim=nets.EDGE_WIDTH)
    return pyg.Sequential("x, edge_index, edge_attr", [(conv, "x, edge_index, edge_attr -> x")])


@pytest.mark.parametrize(
    "dressed",
    [nn.DataParallel, lambda net: torch.compile(net, backend="eager"), lambda net: net],
    ids=["parallel", "compiled", "plain"],
)
@pytest.mark.parametrize("build", [layers_by_name, nets.EdgeGAT])
def test_names_are_found_inside_modules_that_hand_arguments_on(build, dressed):
    net, graph = untrained(build), target()
    expected = net(graph.x, graph.edge_index, graph.edge_attr).softmax(1)
    same(before(mg.add_hops(dressed(net)), graph), expected)


def test_the_adapted_model_takes_further_fields_by_name():
    net, graph = untrained(nets.EdgeAPPNP), target()
    result = mg.adapt(mg.wrap(net), graph, strategy=mg.Matcha(rounds=1))
    got = result.model(graph.x, graph.edge_index, edge_attr=graph.edge_attr).softmax(1)
    same(got.detach(), result.probs)


def test_own_features_are_the_network_without_edges_and_their_fields():
    net, graph = untrained(nets.DataNet), target()
    alone = graph.clone()
    alone.edge_index, alone.edge_attr = alone.edge_index[:, :0], alone.edge_attr[:0]
    none = torch.zeros(0, dtype=torch.long)
    own = mg.add_hops(net).logits(mg.unlabelled(graph).at_edges(none))
    same(own.softmax(1).detach(), net(alone).softmax(1))


# Labels


class AsksForLabels(nets.APPNPNet):
    def forward(self, x, edge_index, y):
        return super().forward(x, edge_index)


class ReadsLabels(nets.APPNPNet):
    def forward(self, data):
        return super().forward(data.x, data.edge_index) + data.y[:, None]


class ReadsMask(nets.APPNPNet):
    def forward(self, data):
        return super().forward(data.x, data.edge_index) * data.train_mask[:, None]


@pytest.mark.parametrize(
    ("build", "name"), [(AsksForLabels, "y"), (ReadsLabels, "y"), (ReadsMask, "train_mask")]
)
def test_a_network_that_needs_labels_is_refused(build, name):
    says = f"^{build.__name__} asks for '{name}': labels and their masks are never given"
    with pytest.raises(mg.IncompatibleError, match=says):
        before(mg.wrap(untrained(build)), target())


# What the graph does not have


@pytest.mark.parametrize("build", [nets.EdgeAPPNP, layers_by_name])
def test_a_parameter_without_a_field_is_named(build):
    net = untrained(build)
    says = f"^{type(net).__name__} asks for 'edge_attr', and the graph has x, edge_index"
    with pytest.raises(mg.IncompatibleError, match=says):
        before(mg.add_hops(net), nets.graphs()[1])


class ReadsColour(nets.APPNPNet):
    def forward(self, data):
        return super().forward(data.x, data.edge_index) * data.colour


class LooksColourUp(nets.APPNPNet):
    def forward(self, data):
        return super().forward(data.x, data.edge_index) * data["colour"]


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (ReadsColour, "^ReadsColour asks for 'colour', and the graph has x, edge_index, batch"),
        (LooksColourUp, "^LooksColourUp failed on this graph: KeyError: 'colour'$"),
    ],
)
def test_a_field_that_a_data_lacks_is_named(build, says):
    with pytest.raises(mg.IncompatibleError, match=says):
        before(mg.wrap(untrained(build)), target())


# Methods that change the graph


@pytest.mark.parametrize(
    ("build", "name"),
    [(nets.EdgeGAT, "edge_attr"), (nets.PositionNet, "pos"), (nets.DataNet, "pos")],
)
def test_graphpatcher_is_refused_where_new_nodes_would_lack_a_field(build, name):
    model, source = mg.add_hops(untrained(build)), nets.graphs_with_fields()[0]
    patcher = mg.GraphPatcher(hidden_channels=4, iterations=1)
    view, everyone = mg.unlabelled(source), torch.ones(source.num_nodes, dtype=torch.bool)
    says = f"asks for '{name}': graphpatcher adds nodes and edges that have none"
    with pytest.raises(mg.IncompatibleError, match=says):
        patcher.source_arrays(model, view, source.y, everyone, seed=0)


class AdjacencyNet(nets.APPNPNet):
    def forward(self, x, adj_t):
        return super().forward(x, adj_t)


def with_matrix(graph, edges):
    ones, size = torch.ones(edges.shape[1]), (graph.num_nodes, graph.num_nodes)
    graph = copy.copy(graph)
    graph.adj_t = torch.sparse_coo_tensor(edges.flip(0), ones, size).to_sparse_csr()
    return graph


def test_a_matrix_of_the_edges_follows_them():
    net, plain = untrained(AdjacencyNet), target()
    graph = with_matrix(plain, plain.edge_index)
    model = mg.wrap(net)
    same(before(model, graph), net(graph.x, graph.adj_t).softmax(1))
    kept = torch.arange(0, plain.num_edges, 3)
    fewer = with_matrix(plain, plain.edge_index[:, kept])
    left = model.seen(mg.unlabelled(graph).at_edges(kept))
    torch.testing.assert_close(left, model.seen(mg.unlabelled(fewer)))
