"""`matcha train` and `matcha attack`, which this distribution adds to the command."""

import tomllib
from pathlib import Path

import pytest
import torch
import typer
from typer.testing import CliRunner

import matcha_gnn as mg
from matcha_gnn.errors import InvalidArgumentError
from matcha_paper import command
from matcha_paper.attack import attacked

PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"


@pytest.fixture
def matcha(tmp_path, monkeypatch):
    """The command with what pyproject.toml adds, in a folder with a graph."""
    monkeypatch.chdir(tmp_path)
    mg.write_graph(mg.datasets.csbm(120, 6, signal=3, seed=0), "g.npz")
    app = typer.Typer()
    points = tomllib.loads(PYPROJECT.read_text())["project"]["entry-points"]
    for name, place in points["matcha_gnn.commands"].items():
        app.command(name=name)(getattr(command, place.partition(":")[2]))
    return lambda *words: CliRunner().invoke(app, words, catch_exceptions=False)


def test_a_trained_model_is_attacked(matcha):
    training = ("train", "g.npz", "-o", "m.safetensors", "--epochs", "5", "--backbone")
    for backbone in ("appnp", "jknet", "gcnii", "gprgnn"):
        assert matcha(*training, backbone, "--hidden", "4", "--hops", "2").exit_code == 0
        assert type(mg.load_model("m.safetensors")).__name__.lower() == backbone
    assert matcha("attack", "m.safetensors", "g.npz", "-o", "a.npz", "--rate", "0.1").exit_code == 0
    expected = attacked(mg.load_model("m.safetensors"), mg.read_graph("g.npz"), 0.1)
    assert torch.equal(mg.read_graph("a.npz").edge_index, expected.edge_index)


def test_bad_calls_are_refused_before_work(matcha):
    for words, says in {
        ("train", "g.npz", "-o", "m.pt"): "a file named .safetensors",
        ("train", "g.npz", "-o", "m.safetensors", "--backbone", "gcn"): "--backbone: got 'gcn'",
        ("train", "g.npz", "-o", "no/m.safetensors"): "No such file or directory",
        ("attack", "m.safetensors", "g.npz", "-o", "no/a.npz"): "No such file or directory",
    }.items():
        with pytest.raises(InvalidArgumentError, match=says):
            matcha(*words)
