"""`matcha adapt --distributed`: files of all ranks or of the first, or one clear line."""

import json
import os

import numpy as np
import pytest
import torch
from spawning import results_of
from test_equality import CLASSES, NODES, small_graph, small_model

import matcha_gnn as mg
from matcha_gnn.cli import app


@pytest.fixture
def folder(tmp_path):
    graph = small_graph()
    graph.y = torch.arange(NODES) % CLASSES
    mg.write_graph(graph, tmp_path / "graph.npz")
    mg.save_model(small_model(), tmp_path / "model.safetensors")
    return tmp_path


def command(folder, output, *more, graph="graph.npz"):
    files = [str(folder / "model.safetensors"), str(folder / graph)]
    fixed = ["--strategy", "matcha", "--set", "rounds=3", "--json"]
    return app._run(["adapt", *files, "-o", str(folder / output), *fixed, *more])


def on_ranks(rank, folder, *more):
    return command(folder, "ranks", "--distributed", *more)


def on_a_store(rank, folder):
    for output, more in (("shards", []), ("gathered", ["--gather"])):
        assert command(folder, output, "--distributed", *more, graph="store") == 0
    return True


def test_shards_hold_what_one_process_writes(folder):
    assert command(folder, "alone") == 0
    alone = np.load(folder / "alone" / "predictions.npz")
    (folder / "ranks").mkdir()
    for name in ("predictions-2-of-3.npz", "report.html", "summary.json"):
        (folder / "ranks" / name).write_bytes(b"of an earlier run")
    assert results_of(2, on_ranks, folder) == [2, 2]
    assert results_of(2, on_ranks, folder, "--force") == [0, 0]
    files = set(os.listdir(folder / "ranks"))
    shards = {"predictions-0-of-2.npz", "predictions-1-of-2.npz"}
    assert files == shards | {"model.safetensors", "history.csv", "summary.json"}
    nodes = []
    for name in shards:
        shard = np.load(folder / "ranks" / name)
        nodes.extend(shard["nodes"])
        np.testing.assert_allclose(shard["probs"], alone["probs"][shard["nodes"]], atol=1e-5)
        np.testing.assert_array_equal(shard["labels"], alone["labels"][shard["nodes"]])
    assert sorted(nodes) == list(range(NODES))
    found, wanted = (
        json.loads((folder / n / "summary.json").read_text()) for n in ("ranks", "alone")
    )
    for number in ("accuracy_before", "accuracy_after", "labels_changed", "pic_after"):
        assert found[number] == pytest.approx(wanted[number], abs=1e-5)
    assert found["ranks"] == 2


def test_ranks_score_what_is_valid_and_say_what_is_not(folder):
    graph = mg.read_graph(folder / "graph.npz")
    graph.y[:5] = -1
    graph.test_mask = (torch.arange(NODES) < NODES // 2).long()
    mg.write_graph(graph, folder / "graph.npz")
    assert command(folder, "alone") == 0
    assert results_of(2, on_ranks, folder) == [0, 0]
    found, wanted = (
        json.loads((folder / n / "summary.json").read_text()) for n in ("ranks", "alone")
    )
    assert found["scored_nodes"] == wanted["scored_nodes"] == NODES // 2 - 5
    assert found["score_remarks"] == wanted["score_remarks"]
    assert found["score_remarks"][0].startswith(f"5 of {NODES // 2} labels are not classes")
    for number in ("accuracy_before", "accuracy_after"):
        assert found[number] == pytest.approx(wanted[number])


def test_gathered_files_are_those_of_one_process(folder):
    assert command(folder, "alone") == 0
    assert results_of(2, on_ranks, folder, "--gather") == [0, 0]
    assert set(os.listdir(folder / "ranks")) == set(os.listdir(folder / "alone"))
    ranks, alone = (np.load(folder / n / "predictions.npz")["probs"] for n in ("ranks", "alone"))
    np.testing.assert_allclose(ranks, alone, atol=1e-5)


def test_a_store_is_left_in_shards_or_gathered(folder):
    mg.GraphStore.create(folder / "store", mg.read_graph(folder / "graph.npz"))
    assert command(folder, "alone") == 0
    assert results_of(2, on_a_store, folder) == [True, True]
    alone = np.load(folder / "alone" / "predictions.npz")["probs"]
    gathered = np.load(folder / "gathered" / "predictions.npz")["probs"]
    shard = np.load(folder / "shards" / "predictions-1-of-2.npz")
    np.testing.assert_allclose(gathered, alone, atol=1e-5)
    np.testing.assert_allclose(shard["probs"], alone[shard["nodes"]], atol=1e-5)
    summaries = [json.loads((folder / n / "summary.json").read_text()) for n in ("shards", "alone")]
    assert summaries[0]["accuracy_after"] == pytest.approx(summaries[1]["accuracy_after"])


def refused(capsys, *arguments):
    assert command(*arguments) == 2
    said = capsys.readouterr().err.strip()
    assert "\n" not in said
    return said


def test_what_is_missing_is_said_in_one_line(folder, capsys, monkeypatch):
    monkeypatch.delenv("RANK", raising=False)
    assert "torchrun" in refused(capsys, folder, "out", "--distributed")
    assert "--distributed" in refused(capsys, folder, "out", "--gather")
    assert "--timeout" in refused(capsys, folder, "out", "--distributed", "--timeout", "0")
    assert "--memory" in refused(capsys, folder, "out", "--distributed", "--memory", "4GB")
    assert "cuda:1" in refused(capsys, folder, "out", "--distributed", "--device", "cuda:1")
