"""What edges mean: loops, repeated edges, directions, components."""

import pytest
import torch
from hypothesis import given
from random_graphs import Way, bounded, graphs, in_float32, trained
from torch_geometric.data import Data

import matcha_gnn as mg
from matcha_gnn.gamma.models import BACKBONES

every_backbone = pytest.mark.parametrize("backbone", BACKBONES)
UNEQUAL = ("normal", "shifted", "few values")
PRECISE = [
    Way(backbone, "erm", strategy) for backbone in BACKBONES for strategy in ("none", "matcha")
]


def predicted(backbone, graph):
    return mg.predict(trained(backbone), graph).probs


def close(found, expected, atol=1e-9):
    torch.testing.assert_close(found, expected, atol=atol, rtol=0)


@every_backbone
@bounded
@given(graphs(weighted=False))
def test_repeated_edges_are_edges_whose_weights_add_up(backbone, graph):
    apart = graph.edge_index[:, graph.edge_index[0] != graph.edge_index[1]]
    once, times = apart.unique(dim=1, return_counts=True)
    repeated = Data(x=graph.x, edge_index=apart)
    weighted = Data(x=graph.x, edge_index=once, edge_weight=times.double())
    close(predicted(backbone, weighted), predicted(backbone, repeated))


@every_backbone
@bounded
@given(graphs(weighted=False))
def test_a_single_self_loop_is_the_one_that_every_node_has(backbone, graph):
    apart = graph.edge_index[:, graph.edge_index[0] != graph.edge_index[1]]
    loops = torch.arange(graph.num_nodes).repeat(2, 1)
    without = Data(x=graph.x, edge_index=apart)
    looped = Data(x=graph.x, edge_index=torch.cat([loops, apart], 1))
    close(predicted(backbone, looped), predicted(backbone, without))


@every_backbone
@bounded
@given(graphs(weighted=False), graphs(weighted=False))
def test_components_are_predicted_as_if_alone(backbone, one, other):
    both = Data(
        x=torch.cat([one.x, other.x]),
        edge_index=torch.cat([one.edge_index, other.edge_index + one.num_nodes], 1),
    )
    alone = torch.cat([predicted(backbone, each) for each in (one, other)])
    close(predicted(backbone, both), alone)


@every_backbone
@bounded
@given(graphs())
def test_an_isolated_node_depends_on_its_own_features_alone(backbone, graph):
    linked = torch.zeros(graph.num_nodes, dtype=torch.bool)
    linked[graph.edge_index.flatten()] = True
    none = torch.zeros(2, 0, dtype=torch.long)
    expected = predicted(backbone, Data(x=graph.x, edge_index=none))
    close(predicted(backbone, graph)[~linked], expected[~linked])


@pytest.mark.parametrize("way", PRECISE, ids=str)
@bounded
@given(graph=graphs(kinds=UNEQUAL))
def test_float32_is_near_float64(way, graph):
    wide, narrow = way.adapt(graph), way.adapt(in_float32(graph), way.model.copied().float())
    assert narrow.probs.dtype == torch.float32
    close(narrow.probs.double(), wide.probs, atol=1e-3)
    assert narrow.pic_before == pytest.approx(wide.pic_before, abs=1e-3)
