"""Networks are given every field of the graph that they ask for, and never a label."""

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
