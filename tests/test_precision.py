"""Graphs and models of different precision, and precisions that are refused."""

import copy
import json

import numpy as np
import pytest
import torch
from matcha_gnn.testing import tiny_graph, trained_model
from torch_geometric.nn import GCN

import matcha_gnn as mg
from matcha_gnn.gamma.methods import METHODS
from matcha_gnn.kernels import Adjacency
from running import run

STRATEGIES = [mg.Guarded(), mg.Matcha(rounds=3)]
NAMES = [strategy.name for strategy in STRATEGIES]

MIXED = [(torch.float32, torch.float64), (torch.float64, torch.float32)]
TRIANGLE = torch.tensor([[0, 1, 2], [1, 2, 0]])


def in_precision(dtype):
    graph = tiny_graph()
    graph.x = graph.x.to(dtype)
    return graph


@pytest.mark.parametrize(("of_model", "of_graph"), MIXED, ids=["wide graph", "wide model"])
@pytest.mark.parametrize("strategy", STRATEGIES, ids=NAMES)
@pytest.mark.parametrize("name", METHODS)
def test_results_are_those_of_the_graph_in_the_models_precision(name, strategy, of_model, of_graph):
    method = METHODS[name]()
    model = trained_model(methods=[METHODS[name]()]).to(of_model)
    mixed = mg.adapt(model, in_precision(of_graph), method, strategy)
    graph = in_precision(of_graph)
    graph.x = graph.x.to(of_model)
    alike = mg.adapt(model, graph, method, strategy)
    assert mixed.probs.dtype == mixed.gamma.dtype == of_model
    assert mixed.probs.isfinite().all()
    torch.testing.assert_close(mixed.probs, alike.probs, atol=1e-5, rtol=0)
    torch.testing.assert_close(mixed.gamma, alike.gamma, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(("of_matrix", "of_rows"), MIXED)
@pytest.mark.parametrize("shape", [(3,), (3, 2)])
def test_a_product_has_the_precision_of_its_rows(of_matrix, of_rows, shape):
    adjacency = Adjacency.normalised(TRIANGLE, 3, None, of_matrix)
    rows = torch.arange(3 * len(shape), dtype=of_rows).reshape(shape)
    product = adjacency @ rows
    assert product.dtype == of_rows
    torch.testing.assert_close(product, adjacency.matrix.to_dense().to(of_rows) @ rows)
    assert adjacency.to(of_rows) is adjacency.to(of_rows)


def test_numpys_default_precision_goes_from_training_to_adaptation(tmp_path, capsys):
    for name, graph in (("source", tiny_graph(0.8, seed=0)), ("target", tiny_graph())):
        arrays = {"x": graph.x.double().numpy(), "edge_index": graph.edge_index.numpy()}
        np.savez(tmp_path / f"{name}.npz", **arrays, y=graph.y.numpy())
    model = tmp_path / "m.safetensors"
    training = ["--epochs", 60, "--hops", 3, "--hidden", 8]
    assert run(capsys, "train", tmp_path / "source.npz", "-o", model, *training)[0] == 0
    arguments = ["adapt", model, tmp_path / "target.npz", "-o", tmp_path / "out", "--json"]
    code, said, _ = run(capsys, *arguments)
    assert code == 0
    graph = tiny_graph()
    expected = mg.adapt(mg.load_model(model), graph)
    assert json.loads(said)["accuracy_after"] == mg.metrics.accuracy(expected.probs, graph.y)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("strategy", STRATEGIES, ids=NAMES)
def test_half_precision_is_refused_in_one_line(dtype, strategy):
    said = r"^model: got parameters in torch\.b?float16; allowed: float32 or float64"
    with pytest.raises(mg.InvalidArgumentError, match=said):
        mg.adapt(trained_model().to(dtype), tiny_graph(), strategy=strategy)


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


@pytest.mark.parametrize("train", [mg.fit, mg.summarise_source])
def test_half_precision_is_refused_in_training(train):
    with pytest.raises(mg.InvalidArgumentError, match=r"^model: got parameters in torch\.float16"):
        train(mg.GPRGNN(6, 3).half(), tiny_graph())
