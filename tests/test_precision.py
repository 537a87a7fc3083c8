"""Graphs and models of different precision, and precisions that are refused."""

import copy

import pytest
import torch
from torch_geometric.nn import GCN

import matcha_gnn as mg
from matcha_gnn.gamma.methods import METHODS
from matcha_gnn.gamma.testing import tiny_graph, trained_model

MIXED = [(torch.float32, torch.float64), (torch.float64, torch.float32)]
SMALL = {"graphpatcher": {"hidden_channels": 8, "iterations": 5}}


def in_precision(dtype):
    graph = tiny_graph()
    graph.x = graph.x.to(dtype)
    return graph


@pytest.mark.parametrize(("of_model", "of_graph"), MIXED, ids=["wide graph", "wide model"])
@pytest.mark.parametrize("name", [*METHODS, "default"])
def test_results_are_those_of_the_graph_in_the_models_precision(name, of_model, of_graph):
    strategy, methods = None, []
    if name != "default":
        methods = [METHODS[name](**SMALL.get(name, {}))]
        strategy = mg.Matcha(*methods, rounds=3)
    model, graph = trained_model(methods=methods).to(of_model), in_precision(of_graph)
    mixed = mg.adapt(model, graph, strategy=strategy)
    graph.x = graph.x.to(of_model)
    alike = mg.adapt(model, graph, strategy=strategy)
    assert mixed.probs.dtype == of_model
    assert mixed.probs.isfinite().all()
    torch.testing.assert_close(mixed.probs, alike.probs, atol=1e-5, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_of_hop_weights_is_refused_in_one_line(dtype):
    model = trained_model().to(dtype)
    said = r"^model: got parameters in torch\.b?float16; allowed: float32 or float64"
    for call in (mg.adapt, mg.fit, mg.summarise_source):
        with pytest.raises(mg.InvalidArgumentError, match=said):
            call(model, tiny_graph())


def test_a_graph_in_half_precision_is_taken_as_float32():
    given = in_precision(torch.float16)
    rounded = tiny_graph()
    rounded.x = given.x.float()
    found, expected = (mg.adapt(trained_model(), graph) for graph in (given, rounded))
    assert torch.equal(found.probs, expected.probs)
    assert given.x.dtype == torch.float16


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_network_in_half_precision_runs_as_a_float32_copy(dtype):
    torch.manual_seed(0)
    net = GCN(6, 8, num_layers=2, out_channels=3).to(dtype).eval()
    result = mg.adapt(net, tiny_graph(), source=mg.summarise_source(net, tiny_graph(0.8, seed=0)))
    graph = tiny_graph()
    expected = copy.deepcopy(net).float()(graph.x, graph.edge_index).softmax(1)
    torch.testing.assert_close(result.probs_before, expected)
    assert {parameter.dtype for parameter in net.parameters()} == {dtype}
