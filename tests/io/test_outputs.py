"""A folder of results holds the files of one run, and a summary only where they are complete."""

import json

import numpy as np
import pytest

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
