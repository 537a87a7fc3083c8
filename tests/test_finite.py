"""Numbers that are not finite: refused in models, never predicted, and null in JSON."""

import json
import math
from dataclasses import replace

import pytest
import torch
from matcha_gnn.testing import tiny_graph, trained_model
from safetensors.torch import load_file

import matcha_gnn as mg
from matcha_gnn.gamma.methods import METHODS, BaseMethod
from matcha_gnn.gamma.methods.base import Prediction
from matcha_gnn.io.jsontext import json_text
from matcha_gnn.io.outputs import Made, write_outputs
from running import run
from tensor_files import rewritten

STRATEGIES = [mg.Guarded(), mg.Matcha(rounds=2)]
NAMES = [strategy.name for strategy in STRATEGIES]


def fail(constant):
    raise AssertionError(f"{constant} is no JSON")


def strict(text):
    return json.loads(text, parse_constant=fail)


def broken_file(path, name, value):
    mg.save_model(trained_model(methods=[mg.AdaNPC()]), path)
    tensor = load_file(path)[name].clone()
    tensor.view(-1)[0] = value
    return rewritten(path, tensors={name: tensor})


def names_in_a_file(tmp_path):
    mg.save_model(trained_model(methods=[mg.AdaNPC()]), tmp_path / "names.safetensors")
    tensors = load_file(tmp_path / "names.safetensors")
    return [n for n, t in tensors.items() if t.is_floating_point() and t.numel()]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_model_file_with_numbers_that_are_not_finite_is_refused_by_name(tmp_path, value):
    names = names_in_a_file(tmp_path)
    assert {"gamma", "norm.running_var", "source_summary.misfit"} < set(names)
    assert any(name.startswith("source_arrays.adanpc.") for name in names)
    for name in names:
        path = broken_file(tmp_path / "m.safetensors", name, value)
        with pytest.raises(mg.InvalidFileError, match=rf"infinite entries in {name}\)"):
            mg.load_model(path)


def test_the_command_refuses_such_a_file(tmp_path, capsys):
    mg.write_graph(tiny_graph(), tmp_path / "g.npz")
    path = broken_file(tmp_path / "m.safetensors", "gamma", math.nan)
    code, out, err = run(capsys, "adapt", path, tmp_path / "g.npz", "-o", tmp_path / "out")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "NaN or infinite entries in gamma" in err
    assert not (tmp_path / "out" / "summary.json").exists()


@pytest.mark.parametrize("strategy", STRATEGIES, ids=NAMES)
@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("name", ["gamma", "head.weight", "norm.running_mean"])
def test_adapt_refuses_a_model_that_is_not_finite(name, value, strategy):
    model = trained_model()
    model.state_dict()[name].view(-1)[0] = value
    with pytest.raises(mg.InvalidArgumentError, match=rf"^model: got NaN or .* in {name};"):
        mg.adapt(model, tiny_graph(), strategy=strategy)


def test_adapt_refuses_a_summary_and_arrays_that_are_not_finite():
    model = trained_model(methods=[mg.AdaNPC()])
    kept = model.source.node_covariance
    model.source.node_covariance[0, 0] = math.nan
    with pytest.raises(mg.InvalidArgumentError, match=r"source_summary\.node_covariance"):
        mg.adapt(model, tiny_graph())
    kept[0, 0] = 1.0
    parts = model.source_arrays["adanpc"].items()
    name, part = next((name, part) for name, part in parts if part.is_floating_point())
    part.view(-1)[0] = math.nan
    with pytest.raises(mg.InvalidArgumentError, match=rf"source_arrays\.adanpc\.{name}"):
        mg.adapt(model, tiny_graph(), mg.AdaNPC())


def scaled_source(scale):
    graph = tiny_graph()
    graph.x = graph.x * scale
    return graph


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e10, 1e18])
def test_a_trained_model_can_be_loaded(tmp_path, scale):
    model = mg.GPRGNN(6, 3, 8, 2)
    mg.fit(model, scaled_source(scale), epochs=3)
    mg.save_model(model, tmp_path / "m.safetensors")
    assert torch.equal(mg.load_model(tmp_path / "m.safetensors").gamma, model.gamma)


@pytest.mark.parametrize(
    ("architecture", "name"), [(mg.GPRGNN, "norm.running_var"), (mg.JKNet, "node_logit_covariance")]
)
def test_training_that_overflows_is_refused(architecture, name):
    with pytest.raises(mg.InvalidGraphError, match=rf"so large that {name} is not finite"):
        mg.fit(architecture(6, 3, 8, 2), scaled_source(1e30), epochs=3)


def test_a_last_step_that_runs_away_is_refused(monkeypatch):
    def step(self):
        for parameter in self.param_groups[0]["params"]:
            parameter.data.fill_(math.nan)

    monkeypatch.setattr(torch.optim.Adam, "step", step)
    with pytest.raises(mg.InvalidArgumentError, match=r"^lr: got .* diverged"):
        mg.fit(mg.GPRGNN(6, 3, 8, 2), tiny_graph(), epochs=1)


@pytest.mark.parametrize("strategy", STRATEGIES, ids=NAMES)
@pytest.mark.parametrize("name", METHODS)
def test_features_that_overflow_are_refused(name, strategy):
    graph, model = tiny_graph(), trained_model(methods=[METHODS[name]()])
    graph.x = graph.x * 1e37
    model.encoder_parameters()[0].data.mul_(100)
    with pytest.raises(mg.IncompatibleError, match="not finite"):
        mg.adapt(model, graph, METHODS[name](), strategy)


@pytest.mark.parametrize("name", sorted(set(METHODS) - {"gtrans"}))
def test_large_features_that_do_not_overflow_give_finite_predictions(name):
    graph, model = tiny_graph(), trained_model(methods=[METHODS[name]()])
    graph.x = graph.x * 1e15
    result = mg.adapt(model, graph, METHODS[name](), mg.Matcha(rounds=2))
    assert result.probs.isfinite().all()
    assert result.gamma.isfinite().all()


class NotANumber(BaseMethod):
    """Answers with NaN from some call on."""

    name = "nan"

    def __init__(self, calls: int) -> None:
        self._left = calls

    def predict(self, view, state):
        self._left -= 1
        probs = view.classify().probs
        return Prediction(probs if self._left >= 0 else probs * math.nan), state


@pytest.mark.parametrize("strategy", STRATEGIES, ids=NAMES)
def test_a_method_that_answers_nan_is_refused(strategy):
    with pytest.raises(mg.IncompatibleError, match="^nan: its predictions .* are not finite"):
        mg.adapt(trained_model(), tiny_graph(), NotANumber(0), strategy)


def test_candidates_that_are_not_finite_are_not_taken():
    weights = mg.Guarded(strategies=(mg.ClosedForm(), mg.Fitted()))
    result = mg.adapt(trained_model(), tiny_graph(), NotANumber(1), weights)
    assert result.status is mg.Status.KEPT_SOURCE
    assert [c.name for c in result.decision.candidates] == ["source"]
    assert result.probs.isfinite().all()


class NotANumberOnce(NotANumber):
    """Answers with NaN in one call."""

    def predict(self, view, state):
        self._left -= 1
        probs = view.classify().probs
        return Prediction(probs * math.nan if self._left == 0 else probs), state


def test_a_last_round_that_is_not_finite_is_taken_back():
    result = mg.adapt(trained_model(), tiny_graph(), NotANumberOnce(4), mg.Matcha(rounds=3))
    assert result.status is mg.Status.NON_FINITE
    assert result.probs.isfinite().all()
    assert torch.equal(result.gamma, result.trace.gamma[-2])


def test_json_has_null_for_what_is_no_number():
    value = {"a": [math.nan, (math.inf, -math.inf)], "b": {"c": 1.5, "d": "NaN"}, "e": True}
    wanted = {"a": [None, [None, None]], "b": {"c": 1.5, "d": "NaN"}, "e": True}
    assert strict(json_text(value)) == wanted


def test_the_summary_is_json_without_nan(tmp_path):
    result = mg.adapt(trained_model(), tiny_graph(), strategy=mg.Matcha(rounds=1))
    result = replace(result, pic_before=math.nan, gamma=result.gamma * math.inf)
    summary = write_outputs(result, tmp_path, None, None, Made(page=False))
    assert math.isnan(summary["pic_before"])
    written = strict((tmp_path / "summary.json").read_text())
    assert written["pic_before"] is None
    assert written["gamma_after"] == [None] * len(result.gamma)
    assert written["pic_after"] == result.pic_after
