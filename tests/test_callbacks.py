"""Callbacks are called for every round; trackers get the same numbers as history.csv."""

import logging
import sys
from types import SimpleNamespace

import pytest

import matcha_gnn as mg
from matcha_gnn.callbacks import MLflow, TensorBoard, WandB
from matcha_gnn.errors import MatchaError
from matcha_gnn.testing import tiny_graph, trained_model


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


class FakeMLflow(SimpleNamespace):
    """As much of mlflow as the callback uses."""

    def __init__(self):
        super().__init__(metrics={}, params={}, tags={})

    def log_metrics(self, metrics, step):
        self.metrics[step] = metrics

    def log_params(self, params):
        self.params |= params

    def set_tags(self, tags):
        self.tags |= tags


def test_mlflow_gets_metrics_parameters_and_tags(monkeypatch):
    fake = FakeMLflow()
    monkeypatch.setitem(sys.modules, "mlflow", fake)
    result = adapt(MLflow())
    assert fake.metrics == {t: result.trace.row(t) for t in range(3)}
    assert fake.params == result.configuration()
    assert fake.tags["status"] == result.status


def test_wandb_gets_history_configuration_and_summary():
    logged = {}
    run = SimpleNamespace(config={}, summary={})
    run.log = lambda values, step: logged.update({step: values})
    result = adapt(WandB(run))
    assert logged == {t: result.trace.row(t) for t in range(3)}
    assert run.config == result.configuration()
    assert run.summary["labels_changed"] == result.changed


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
