"""The example from a trained GraphSAGE to answers in Parquet runs at small size."""

import importlib.util
from pathlib import Path

import pytest
import torch

import matcha_gnn as mg

EXAMPLE = Path(__file__).parents[2] / "examples" / "07_graph_in_tables.py"


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("graph_in_tables", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_accuracy_rises_from_training_to_answers(example, tmp_path, capsys):
    before, after = example.main(["--nodes", "2000", "--folder", str(tmp_path)])
    assert after > before + 0.05
    assert f"{before:.1%} → {after:.1%}" in capsys.readouterr().out
    assert (tmp_path / "answers.parquet").is_file()


@torch.no_grad()
def test_batches_predict_as_the_whole_graph_does(example):
    graph = mg.datasets.csbm(6000, example.FEATURES, 8.0, 0.5)
    torch.manual_seed(0)
    net = example.trained(graph, 0)
    whole = net(graph.x, graph.edge_index).softmax(1)
    torch.testing.assert_close(example.predict(net, graph), whole)
