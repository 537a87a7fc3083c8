"""Three kinds of graphs answer one interface: in memory, stored, and sharded over ranks."""

import inspect

import pytest
import torch
import torch.distributed as dist
from matcha_gnn.graphs.base import BaseGraph
from matcha_gnn.graphs.sharded.ranks import Ranks
from matcha_gnn.graphs.sharded.shard import GraphShard, shard_of
from matcha_gnn.graphs.stored.target import StoredGraph, planned
from matcha_gnn.testing import tiny_graph

import matcha_gnn as mg
from matcha_gnn.errors import IncompatibleError
from matcha_gnn.graphs.memory import Graph, LocalGraph, whole_in_memory


@pytest.fixture(params=["memory", "stored", "sharded"])
def graph(request, tmp_path):
    data = tiny_graph()
    if request.param == "memory":
        yield mg.unlabelled(data)
    elif request.param == "stored":
        model = mg.GPRGNN(data.num_features, 3).frozen()
        store = mg.GraphStore.create(tmp_path / "store", data)
        yield planned(store, model, mg.ERM(), mg.Matcha())
    else:
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        yield shard_of(mg.unlabelled(data), Ranks())
        dist.destroy_process_group()


def test_no_kind_of_graph_is_another():
    kinds = (Graph, StoredGraph, GraphShard)
    for kind in kinds:
        assert issubclass(kind, BaseGraph)
        assert not any(issubclass(kind, other) for other in kinds if other is not kind)
    assert not issubclass(StoredGraph, LocalGraph)


def test_every_question_has_the_same_answer(graph):
    data = tiny_graph()
    whole, values = mg.unlabelled(data), torch.randn(data.num_nodes, 3)
    asked = {name for name, _ in inspect.getmembers(BaseGraph) if not name.startswith("_")}
    assert asked == {
        *("num_nodes", "num_features", "device", "adjacency", "fingerprint", "blocks", "shard"),
        *("sample_links", "neighbour_sums", "message_sums", "reciprocal", "make_hops"),
        "most_columns",
    }
    assert (graph.num_nodes, graph.num_features) == (whole.num_nodes, whole.num_features)
    assert (graph.device, graph.reciprocal) == (whole.device, whole.reciprocal)
    assert isinstance(graph.fingerprint, str)
    torch.testing.assert_close(graph.adjacency @ values, whole.adjacency @ values)
    torch.testing.assert_close(graph.neighbour_sums(values), whole.neighbour_sums(values))
    features = torch.cat([block.x for _, block in graph.blocks()])
    assert torch.equal(features, whole.x)
    links = graph.sample_links(10**6, 0)
    assert set(map(tuple, links.T.tolist())) <= set(map(tuple, whole.edge_index.T.tolist()))
    assert graph.make_hops is None or callable(graph.make_hops)
    assert graph.most_columns >= 1
    assert graph.shard.count(graph.num_nodes) == whole.num_nodes


def test_only_a_graph_in_memory_is_whole(graph):
    if isinstance(graph, Graph):
        assert whole_in_memory(graph, "this method") is graph
    else:
        with pytest.raises(IncompatibleError, match="this method needs the whole graph in memory"):
            whole_in_memory(graph, "this method")
