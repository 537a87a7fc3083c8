"""Numbers that are not finite: refused in models, never predicted, and null in JSON."""

import json
import math
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file

import matcha_gnn as mg
from matcha_gnn.gamma.methods import BaseMethod
from matcha_gnn.gamma.methods.base import Prediction
from matcha_gnn.gamma.testing import tiny_graph, trained_model
from matcha_gnn.io.jsontext import json_text
from tensor_files import rewritten


def strict(text):
    def fail(constant):
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(text, parse_constant=fail)


@pytest.mark.parametrize("value", [math.nan, -math.inf])
def test_a_model_file_with_numbers_that_are_not_finite_is_refused_by_name(tmp_path, value):
    path = tmp_path / "m.safetensors"
    mg.save_model(trained_model(methods=[mg.AdaNPC()]), path)
    tensors = {n: t for n, t in load_file(path).items() if t.is_floating_point() and t.numel()}
    assert {"gamma", "norm.running_var", "source_summary.own.logit_covariance"} < set(tensors)
    assert any(name.startswith("source_arrays.adanpc.") for name in tensors)
    for name, tensor in tensors.items():
        mg.save_model(trained_model(methods=[mg.AdaNPC()]), path)
        tensor.view(-1)[0] = value
        rewritten(path, tensors={name: tensor})
        with pytest.raises(mg.InvalidFileError, match=rf"infinite entries in {name}\)"):
            mg.load_model(path)


@pytest.mark.parametrize("strategy", [None, mg.Matcha(rounds=2)], ids=["default", "matcha"])
@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("name", ["gamma", "head.weight", "norm.running_mean"])
def test_adapt_refuses_a_model_that_is_not_finite(name, value, strategy):
    model = trained_model()
    model.state_dict()[name].view(-1)[0] = value
    with pytest.raises(mg.InvalidArgumentError, match=rf"^model: got NaN or .* in {name};"):
        mg.adapt(model, tiny_graph(), strategy=strategy)


def test_adapt_refuses_a_summary_and_arrays_that_are_not_finite():
    model = trained_model(methods=[mg.AdaNPC()])
    covariance = model.source.own["logit_covariance"]
    covariance[0, 0] = math.nan
    with pytest.raises(mg.InvalidArgumentError, match=r"source_summary\.own\.logit_covariance"):
        mg.adapt(model, tiny_graph())
    covariance[0, 0] = 1.0
    model.source_arrays["adanpc"]["rows"].view(-1)[0] = math.nan
    with pytest.raises(mg.InvalidArgumentError, match=r"source_arrays\.adanpc\.rows"):
        mg.adapt(model, tiny_graph(), strategy=mg.AdaNPC())


class NotANumber(BaseMethod):
    """Answers with NaN in some call, and from there on."""

    name = "nan"

    def __init__(self, good: int, bad: int = 1000) -> None:
        self._calls, self._good, self._bad = 0, good, bad

    def predict(self, view, state):
        self._calls += 1
        broken = self._good < self._calls <= self._good + self._bad
        return Prediction(view.classify().probs * (math.nan if broken else 1)), state


def test_a_method_that_answers_nan_is_refused():
    for strategy in (mg.Matcha(rounds=2), mg.Unadapted()):
        with pytest.raises(mg.IncompatibleError, match="^nan: its predictions .* are not finite"):
            mg.gamma.run(trained_model(), tiny_graph(), NotANumber(0), strategy)


def test_a_last_round_that_is_not_finite_is_taken_back():
    method = NotANumber(3, bad=1)
    result = mg.gamma.run(trained_model(), tiny_graph(), method, mg.Matcha(rounds=3))
    assert result.status is mg.Status.NON_FINITE
    assert result.probs.isfinite().all()
    assert torch.equal(result.gamma, result.trace.gamma[-2])


def test_json_has_null_for_what_is_no_number():
    value = {"a": [math.nan, (math.inf, -math.inf)], "b": {"c": 1.5, "d": "NaN"}, "e": True}
    wanted = {"a": [None, [None, None]], "b": {"c": 1.5, "d": "NaN"}, "e": True}
    assert strict(json_text(value)) == wanted
    result = mg.gamma.run(trained_model(), tiny_graph(), strategy=mg.Matcha(rounds=1))
    result = replace(result, pic_before=math.nan, gamma=result.gamma * math.inf)
    written = strict(json_text(result.to_dict()))
    assert written["pic_before"] is None
    assert written["gamma_after"] == [None] * len(result.gamma)
    assert written["pic_after"] == result.pic_after
