"""A folder of results holds the files of one run, and a summary only where they are complete."""

import csv
import json

import numpy as np
import pytest
from matcha_gnn.testing import tiny_graph, trained_model

import matcha_gnn as mg
from matcha_gnn.io import outputs

OWN = {
    *("predictions.npz", "changed.csv", "model.safetensors", "history.csv", "report.html"),
    "summary.json",
}


@pytest.fixture(scope="module")
def result():
    graph = mg.datasets.csbm(num_nodes=60, num_features=4, seed=1)
    return mg.adapt(mg.GPRGNN(4, 2, 4, 2), graph, strategy=mg.Matcha(rounds=2))


def names(folder):
    return {path.name for path in folder.iterdir()}


def fail(*_, **__):
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("step", ["save_model", "write_history", "summarise_run"])
def test_a_run_that_stops_between_files_leaves_no_summary(step, result, tmp_path, monkeypatch):
    outputs.write_outputs(result, tmp_path, None, None)
    assert names(tmp_path) == OWN
    monkeypatch.setattr(outputs, step, fail)
    with pytest.raises(OSError, match="No space left"):
        outputs.write_outputs(result, tmp_path, None, None)
    assert "summary.json" not in names(tmp_path)
    monkeypatch.undo()
    outputs.write_outputs(result, tmp_path, None, None)
    assert names(tmp_path) == OWN


@pytest.mark.parametrize("page", [True, False])
def test_files_of_an_earlier_run_do_not_stay(page, result, tmp_path):
    earlier = ["report.html", "predictions-0-of-2.npz", "predictions-11-of-12.npz", "history.csv"]
    for name in (*earlier, ".predictions-1-of-2.npz", "predictions.npz", "summary.json"):
        (tmp_path / name).write_text("of an earlier run")
    outputs.write_outputs(result, tmp_path, None, None, outputs.Made(page=page))
    assert names(tmp_path) == (OWN if page else OWN - {"report.html"})
    with np.load(tmp_path / "predictions.npz") as predictions:
        assert np.array_equal(predictions["probs"], result.probs.numpy())
    assert json.loads((tmp_path / "summary.json").read_text())["status"] == str(result.status)


def test_files_of_others_stay(result, tmp_path):
    others = {"notes.txt", "predictions-best-of-three.npz", "my-report.html", "predictions.csv"}
    for name in others:
        (tmp_path / name).write_text("mine")
    (tmp_path / "predictions-0-of-2.npz").mkdir()
    outputs.write_outputs(result, tmp_path, None, None)
    assert names(tmp_path) == OWN | others | {"predictions-0-of-2.npz"}
    assert all((tmp_path / name).read_text() == "mine" for name in others)


def test_a_summary_that_cannot_be_removed_stops_the_run_before_it_writes(result, tmp_path):
    (tmp_path / "summary.json").mkdir()
    with pytest.raises(mg.InvalidFileError, match="summary.json.*can be removed"):
        outputs.write_outputs(result, tmp_path, None, None)
    assert names(tmp_path) == {"summary.json"}


def test_changed_nodes_are_written_with_labels_and_probabilities(tmp_path):
    model, graph = trained_model(), tiny_graph()
    result = mg.adapt(model, graph, classes=("red, dark", "green", "blue"))
    assert result.changed > 0
    outputs.write_outputs(result, tmp_path, None, None)
    with open(tmp_path / "changed.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    nodes = (result.labels != result.labels_before).nonzero()[:, 0].tolist()
    assert [int(row["node"]) for row in rows] == nodes
    for row, node in zip(rows, nodes, strict=True):
        assert row["label_before"] == result.classes[result.labels_before[node]]
        assert row["label_after"] == result.classes[result.labels[node]]
        before, after = result.probs_before[node].max(), result.probs[node].max()
        assert float(row["probability_before"]) == pytest.approx(float(before), abs=1e-6)
        assert float(row["probability_after"]) == pytest.approx(float(after), abs=1e-6)
    with np.load(tmp_path / "predictions.npz") as arrays:
        moved = arrays["ids"][arrays["labels"] != arrays["labels_before"]]
    assert moved.tolist() == nodes


def test_the_summary_names_metric_classes_and_who_took_the_candidate(tmp_path):
    graph = tiny_graph()
    result = mg.adapt(trained_model(), graph, metric="macro_f1", classes=("a", "b", "c"))
    summary = outputs.write_outputs(result.take("probe"), tmp_path, graph.y, None)
    assert summary["chosen"] == "probe"
    assert summary["taken_by_hand_in_place_of"] == result.decision.chosen
    assert (summary["metric"], summary["metric_title"]) == ("macro_f1", "macro F1")
    assert summary["classes"] == ["a", "b", "c"]
    probe = next(one for one in result.decision.candidates if one.name == "probe")
    assert summary["expected_after"] == probe.goal.value
    assert summary["metric_after"] == pytest.approx(
        mg.metrics.evaluate(probe.probs, graph.y).macro_f1
    )
    assert len(summary["class_estimates"]["recall_after"]) == 3
    assert json.loads((tmp_path / "summary.json").read_text())["date"] == result.date.isoformat()
