"""The command on a store, as a user meets it."""

import json

import numpy as np
import pytest
from small_stores import FEATURES, source_model, target_graph

import matcha_gnn as mg
from running import run


@pytest.fixture
def files(tmp_path):
    mg.save_model(source_model(), tmp_path / "m.safetensors")
    mg.write_graph(target_graph(), tmp_path / "g.npz")
    return tmp_path


def test_a_drawn_store_is_adapted_to_and_the_estimate_said_first(files, capsys):
    law = ("--nodes", 900, "--features", FEATURES, "--homophily", 0.2, "--seed", 11)
    code, said, _ = run(capsys, "make-graph", "csbm", *law, "--store", files / "store", "--json")
    assert code == 0
    assert json.loads(said)["nodes"] == 900
    adapt = ("adapt", files / "m.safetensors", files / "store", "-o", files / "out")
    options = ("--strategy", "matcha", "--set", "rounds=3", "--memory", "3GB")
    code, said, err = run(capsys, *adapt, *options)
    assert code == 0
    assert "accuracy" in said
    assert "3 reads" not in err
    assert "7 reads of the hops" in err
    names = {"predictions.npz", "changed.csv", "model.safetensors", "history.csv", "summary.json"}
    assert {path.name for path in (files / "out").iterdir()} == names
    with np.load(files / "out" / "predictions.npz") as predictions:
        assert predictions["probs"].shape == (900, 2)


def test_any_graph_becomes_a_store(files, capsys):
    code, said, _ = run(capsys, "make-graph", files / "g.npz", "--store", files / "store")
    assert code == 0
    assert "700 nodes" in said
    found = mg.adapt(source_model(), mg.GraphStore(files / "store"), strategy=mg.Matcha(rounds=2))
    expected = mg.adapt(source_model(), target_graph(), strategy=mg.Matcha(rounds=2))
    assert float((found.probs - expected.probs).abs().max()) < 1e-4


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("make-graph", "csbm"), "one of them"),
        (("make-graph", "csbm", "--store", "a", "-o", "b.npz"), "one of them"),
        (("adapt", "m.safetensors", ".", "-o", "out"), "no meta.json"),
        (("adapt", "m.safetensors", "g.npz", "-o", "out", "--memory", "1GB"), "folder of a store"),
    ],
)
def test_one_line_for_what_is_wrong(arguments, words, files, capsys, monkeypatch):
    monkeypatch.chdir(files)
    code, _, err = run(capsys, *arguments)
    assert code == 2
    assert words in err
    assert err.count("\n") == 1
