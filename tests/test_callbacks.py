"""Callbacks are called for every round; trackers get the same numbers as history.csv."""

import json
import logging
import sys
from dataclasses import replace
from time import monotonic, sleep
from types import SimpleNamespace

import pytest

import matcha_gnn as mg
from matcha_gnn.callbacks import JSONLines, MLflow, Prometheus, TensorBoard, WandB
from matcha_gnn.errors import MatchaError
from matcha_gnn.testing import tiny_graph, trained_model
from matcha_gnn.watching import Alarm, AlarmKind, Step
from matcha_gnn.watching.alarms import Chance


def adapt(*callbacks):
    return mg.adapt(
        trained_model(), tiny_graph(), strategy=mg.Matcha(rounds=2), callbacks=callbacks
    )


class Heard(mg.Callback):
    def __init__(self):
        self.rounds, self.results = [], []

    def on_round(self, number, values):
        self.rounds.append({"round": number} | values)

    def on_end(self, result):
        self.results.append(result)


def test_callbacks_are_called_for_every_round_and_at_the_end():
    heard = Heard()
    result = adapt(heard, mg.Callback())
    assert heard.rounds == result.trace.rows()
    assert heard.results == [result]


def test_callbacks_change_nothing():
    assert adapt(Heard()).probs.equal(adapt().probs)


def test_mlflow_gets_metrics_parameters_and_tags(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow", reason="mlflow is not installed")
    # Since version 3.17 files have to be asked for.
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri((tmp_path / "store").as_uri())
    with mlflow.start_run() as run:
        result = adapt(MLflow())
    client, number = mlflow.MlflowClient(), run.info.run_id
    for name in result.trace.row(0):
        history = {each.step: each.value for each in client.get_metric_history(number, name)}
        assert history == {t: result.trace.row(t)[name] for t in range(3)}
    logged = client.get_run(number).data
    assert logged.params == {name: str(v) for name, v in result.configuration().items()}
    assert logged.tags["status"] == result.status


def test_wandb_gets_history_configuration_and_summary(tmp_path, monkeypatch):
    wandb = pytest.importorskip("wandb", reason="wandb is not installed")
    monkeypatch.setenv("WANDB_SILENT", "true")
    with wandb.init(mode="offline", dir=tmp_path, project="matcha") as run:
        result = adapt(WandB(run))
        assert {name: run.config[name] for name in result.configuration()} == result.configuration()
        assert run.summary["labels_changed"] == result.changed
        assert run.summary["status"] == result.status
    (file,) = tmp_path.rglob("*.wandb")
    # The package has no reader, and a process of its own writes: numbers are text in the file.
    wanted = {json.dumps(value) for t in range(3) for value in result.trace.row(t).values()}
    deadline = monotonic() + 20
    while missing := {each for each in wanted if each.encode() not in file.read_bytes()}:
        assert monotonic() < deadline, missing
        sleep(0.1)


def test_tensorboard_gets_curves(tmp_path):
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    result = adapt(TensorBoard(tmp_path))
    events = EventAccumulator(str(tmp_path)).Reload()
    losses = [event.value for event in events.Scalars("loss")]
    assert losses == pytest.approx(result.trace.loss)
    assert "gamma_0" in events.Tags()["scalars"]
    assert any("status" in tag for tag in events.Tags()["tensors"])


@pytest.mark.parametrize(
    ("package", "make"),
    [("mlflow", MLflow), ("torch.utils.tensorboard", lambda: TensorBoard("nowhere"))],
)
def test_what_is_not_installed_is_named(monkeypatch, package, make):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MatchaError, match="is not installed"):
        make()


def test_runs_are_logged_and_nothing_is_printed(caplog, capsys):
    adapt()
    assert capsys.readouterr() == ("", "")
    with caplog.at_level(logging.INFO, logger="matcha_gnn"):
        result = adapt()
        mg.fit(mg.GPRGNN(6, 3), tiny_graph(), epochs=1)
    said = [record.getMessage() for record in caplog.records]
    assert said[0].startswith("adapting to 120 nodes")
    assert repr(result) in said[1]
    assert said[2] == "training GPRGNN on 108 nodes"


STEP = Step(
    7,
    "2026-05-01T12:00:00+00:00",
    name="day 7",
    nodes=100,
    chosen="pool",
    accuracy=0.81,
    alarms=(Alarm(AlarmKind.NOT_MENDED, "Label nodes.", Chance(1, 20)),),
)
NUMBERS = {"number": 7.0, "repeats": 0.0, "nodes": 100.0, "edges": 0.0, "accuracy": 0.81}
NUMBERS |= {"adapted": 1.0, "alarm_not_mended": 1.0}
NUMBERS |= {f"alarm_{kind}": 0.0 for kind in ("level", "class_shares", "answers", "features")}


SAID = "Label nodes. By chance: it rang on 1 of 20 graphs resampled from the source."


def test_mlflow_gets_the_figures_of_a_graph(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow", reason="mlflow is not installed")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri((tmp_path / "store").as_uri())
    with mlflow.start_run() as run:
        MLflow().on_graph(STEP)
    logged = mlflow.MlflowClient().get_run(run.info.run_id).data
    assert logged.metrics == NUMBERS
    assert logged.tags["alarms"] == SAID


def test_wandb_gets_the_figures_of_a_graph():
    logged: dict = {}
    run = SimpleNamespace(summary={}, log=lambda values, step: logged.update({step: values}))
    WandB(run).on_graph(STEP)
    assert logged == {7: NUMBERS}
    assert run.summary["alarms"] == SAID
    WandB(run).on_graph(replace(STEP, alarms=()))
    assert run.summary["alarms"] == "none"


def test_tensorboard_gets_the_figures_of_a_graph(tmp_path):
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    TensorBoard(tmp_path).on_graph(STEP)
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    assert set(events.Tags()["scalars"]) == set(NUMBERS)
    (point,) = events.Scalars("accuracy")
    assert (point.step, round(point.value, 6)) == (7, 0.81)
    assert "alarm: not mended/text_summary" in events.Tags()["tensors"]


def test_json_lines_add_up_and_can_be_read_back(tmp_path):
    callback = JSONLines(tmp_path / "events.jsonl")
    for number in (1, 2):
        callback.on_graph(replace(STEP, number=number))
    lines = (tmp_path / "events.jsonl").read_text().splitlines()
    steps = [Step.from_figures(json.loads(line)) for line in lines]
    assert [step.number for step in steps] == [1, 2]
    assert steps[0].alarms == STEP.alarms
    with pytest.raises(mg.InvalidFileError, match="writable folder"):
        JSONLines(tmp_path / "no" / "events.jsonl").on_graph(STEP)


def test_prometheus_gets_the_newest_graph(tmp_path):
    callback = Prometheus(tmp_path / "m.prom")
    callback.on_graph(replace(STEP, number=6))
    callback.on_graph(STEP)
    text = (tmp_path / "m.prom").read_text()
    assert text.endswith("\n")
    lines = text.splitlines()
    assert "matcha_accuracy 0.81" in lines
    assert 'matcha_alarm{kind="not_mended"} 1.0' in lines
    assert 'matcha_alarm{kind="level"} 0.0' in lines
    assert "matcha_graphs_total 7.0" in lines
    assert "matcha_graph_time_seconds 1777636800.0" in lines
    assert not any(line.startswith("matcha_homophily") for line in lines), "not known"
    names = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    assert len(names) == len(set(names))
    assert [path.name for path in tmp_path.iterdir()] == ["m.prom"]
    callback.on_graph(Step(8, STEP.time, problem="broken"))
    assert "matcha_usable 0.0" in (tmp_path / "m.prom").read_text()
