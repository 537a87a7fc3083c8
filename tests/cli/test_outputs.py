"""A folder of results holds the files of one run, and a summary only where they are complete."""

import json

import pytest
import torch

import matcha_gnn as mg
from matcha_gnn.cli import outputs

OWN = {"predictions.npz", "changed.csv", "answer.safetensors", "report.html", "summary.json"}


@pytest.fixture(scope="module")
def target():
    return mg.datasets.csbm(300, 16, homophily=0.1, signal=2, seed=1)


@pytest.fixture(scope="module")
def result(target):
    source = mg.datasets.csbm(300, 16, homophily=0.9, signal=2, seed=0)
    model = mg.GPRGNN(16, 2, K=2)
    mg.fit(model, source, epochs=30)
    return mg.adapt(model, target, metric="macro_f1", classes=("ham, or ham", "spam")).take("pool")


def names(folder):
    return {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("step", ["_write_answer", "write_changed", "write_json"])
def test_a_run_that_stops_between_files_leaves_no_summary(step, result, tmp_path, monkeypatch):
    def fail(*_, **__):
        raise OSError(28, "No space left on device")

    outputs.write_outputs(result, tmp_path)
    monkeypatch.setattr(outputs, step, fail)
    with pytest.raises(OSError, match="No space left"):
        outputs.write_outputs(result, tmp_path)
    assert "summary.json" not in names(tmp_path)
    monkeypatch.undo()
    outputs.write_outputs(result, tmp_path)
    assert names(tmp_path) == OWN


@pytest.mark.parametrize("page", [True, False])
def test_files_of_an_earlier_run_go_and_those_of_others_stay(page, result, tmp_path):
    for name in (*OWN, "questions.safetensors", "questions.html", "notes.txt", "history.csv"):
        (tmp_path / name).write_text("earlier")
    outputs.write_outputs(result, tmp_path, page=page)
    written = OWN if page else OWN - {"report.html"}
    assert names(tmp_path) == written | {"notes.txt", "history.csv"}
    assert all((tmp_path / name).read_bytes() != b"earlier" for name in written)


def test_the_summary_is_the_result_with_scores(result, target, tmp_path):
    target = target.clone()
    target.test_mask = torch.arange(300) < 100
    target.y[:10] = -1
    written = outputs.write_outputs(result, tmp_path, target, command="matcha adapt", page=False)
    summary = json.loads((tmp_path / "summary.json").read_text())
    own = json.loads(json.dumps(result.to_dict()))
    assert {name: summary[name] for name in own} == own
    scored = torch.arange(300).clamp(10, 99).unique()
    truth = target.y[scored]
    assert summary["accuracy_after"] == mg.metrics.accuracy(result.labels[scored], truth)
    macro = mg.metrics.evaluate(result.probs_before[scored], truth).macro_f1
    assert summary["metric_before"] == written["metric_before"] == pytest.approx(macro)
    assert (summary["scored_nodes"], summary["command"]) == (90, "matcha adapt")
    assert summary["score_remarks"] == [
        "10 of 100 labels are not classes 0 to 1 and were not scored"
    ]
    assert "torch" in summary["versions"]


def test_a_summary_that_cannot_be_removed_stops_the_run_before_it_writes(result, tmp_path):
    (tmp_path / "summary.json").mkdir()
    with pytest.raises(mg.InvalidFileError, match=r"summary.json.*can be removed"):
        outputs.write_outputs(result, tmp_path)
    assert names(tmp_path) == {"summary.json"}
