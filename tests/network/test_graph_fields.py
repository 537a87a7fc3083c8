"""Fields of a graph: their levels, the fingerprint that covers them, and what is no graph."""

import numpy as np
import pytest
import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.loader import DataLoader, NeighborLoader

import matcha_gnn as mg
import pyg_networks as nets
from matcha_gnn.graphs.extras import Level


def untrained(build):
    torch.manual_seed(0)
    return build().eval()


def target():
    return nets.graphs_with_fields()[1]


def before(model, graph):
    return mg.adapt(model, graph, strategy=mg.Matcha(rounds=1)).probs_before


def same(got, expected):
    torch.testing.assert_close(got, expected.detach(), rtol=1e-5, atol=1e-6)


def test_levels_are_those_of_pyg():
    graph = target().clone()
    graph.names, graph.year = ["a"] * graph.num_nodes, np.arange(graph.num_nodes)
    graph.kinds, graph.scale, graph.origin = ("b",) * graph.num_edges, 3.0, torch.tensor(1.0)
    view = mg.unlabelled(graph)
    for name, _, level in view.extras.fields:
        assert (level == Level.NODE) == graph.is_node_attr(name)
        assert (level == Level.EDGE) == graph.is_edge_attr(name)
    left = view.at_edges(torch.tensor([4, 2])).extras.values(torch.float32)
    assert torch.equal(left["edge_attr"], graph.edge_attr[[4, 2]])
    assert left["kinds"] == ("b", "b")
    assert left["scale"] == 3.0
    assert len(left["names"]) == len(left["year"]) == graph.num_nodes


@pytest.mark.parametrize(
    "change",
    [
        {"edge_attr": torch.zeros(2, 1)},
        {"edge_attr": torch.ones(2, 1, dtype=torch.float64)},
        {"edge_attr": torch.ones(2)},
        {"edge_attr": None, "edge_feature": torch.ones(2, 1)},
        {"edge_attr": torch.ones(2, 1, dtype=torch.bfloat16)},
        {"edge_attr": torch.ones(2, 1).to_sparse()},
        {"edge_attr": np.ones((2, 1))},
        {"edge_attr": [1.0, 1.0]},
        {"scale": 2},
    ],
)
def test_the_fingerprint_covers_fields(change):
    parts = {"x": torch.ones(3, 2), "edge_index": torch.tensor([[0, 1], [1, 0]])}
    one = Data(**parts, edge_attr=torch.ones(2, 1))
    other = Data(**parts | {"edge_attr": torch.ones(2, 1)} | change)
    assert mg.unlabelled(one).fingerprint == mg.unlabelled(one.clone()).fingerprint
    assert mg.unlabelled(one).fingerprint != mg.unlabelled(other).fingerprint


def test_the_fingerprint_of_a_plain_graph_is_what_it_was():
    edges = torch.tensor([[0, 1], [1, 0]])
    plain = Data(x=torch.ones(3, 2), edge_index=edges, y=torch.ones(3), train_mask=torch.ones(3))
    assert mg.unlabelled(plain).fingerprint == "cb5c3d37557c6fb26dc7aa8e18ab4dd7"


class OneGraph(torch.utils.data.Dataset):
    def __getitem__(self, number):
        return target()


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda g: HeteroData(), r"a HeteroData; allowed: one Data: data.to_homogeneous\(\)"),
        (lambda g: [g], r"a list; allowed: one Data: adapt to each graph, or join them"),
        (lambda g: (g, g), r"a tuple; allowed: one Data"),
        (lambda g: NeighborLoader(g, [2]), "a NeighborLoader; allowed: the whole graph"),
        (lambda g: OneGraph(), r"a OneGraph; allowed: one graph of it, such as dataset\[0\]"),
        (lambda g: DataLoader([g]), "a DataLoader; allowed: the whole graph, such as loader.data"),
    ],
)
def test_what_is_not_one_graph_is_told_what_to_give(build, says):
    model, given = mg.add_hops(untrained(nets.EdgeGAT)), build(target())
    for use in (mg.adapt, mg.summarise_source):
        with pytest.raises(mg.InvalidGraphError, match=f"^graph: got {says}"):
            use(model, given)
