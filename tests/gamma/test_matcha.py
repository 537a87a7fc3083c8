"""Algorithm 1 against itself written out, its rounds and endings, and what its result says."""

import copy
import json
import logging
import math

import numpy as np
import pytest
import torch

import matcha_gnn as mg
from matcha_gnn.gamma.models import BACKBONES
from matcha_gnn.gamma.testing import tiny_graph, trained_model


class FixedPrediction(mg.BaseMethod):
    """Predicts given probabilities [N, C], to test the loop alone."""

    name = "fixed"

    def __init__(self, probs):
        self._probs = probs

    def predict(self, view, state):
        return mg.Prediction(self._probs), state


def plain_matcha(model, graph, lr, rounds, loss):
    """Algorithm 1 written out with autograd on the plain forward pass, in float64."""
    model = copy.deepcopy(model).double().eval().requires_grad_(False)
    model.gamma.requires_grad_(True)
    x = graph.x.double()
    for _ in range(rounds):
        h = model.encode(x)
        adjacency = mg.unlabelled(graph).adjacency.matrix.to_dense().double()
        z = torch.zeros_like(h)
        for k in range(model.num_hops + 1):
            z = z + model.gamma[k] * (torch.linalg.matrix_power(adjacency, k) @ h)
        logits = model.head(z)
        value = loss(z, logits, logits.softmax(-1).detach())
        (gradient,) = torch.autograd.grad(value, model.gamma)
        with torch.no_grad():
            model.gamma -= lr * gradient
    return model.gamma.detach(), model(x, graph.edge_index).softmax(-1)


@pytest.mark.parametrize("loss", [mg.PIC(), mg.Entropy(), mg.PseudoLabel(), mg.Difference()])
def test_adapt_is_algorithm_1_with_a_prediction_after_the_last_step(loss):
    model, graph = trained_model(), tiny_graph()
    gamma, probs = plain_matcha(model, graph, lr=0.05, rounds=5, loss=loss)
    result = mg.gamma.run(model, graph, strategy=mg.Matcha(loss=loss, lr=0.05, rounds=5))
    torch.testing.assert_close(result.gamma.double(), gamma, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(result.probs.double(), probs.detach(), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("kind", BACKBONES.values(), ids=list(BACKBONES))
def test_rounds_are_those_of_autograd_through_the_formula(kind):
    """Whatever the backbone: from sums of kept hops, or with constants that are kept."""
    model, target = kind(6, 3, hidden_channels=8), mg.unlabelled(tiny_graph())
    lr = 10.0 if kind is mg.JKNet else 0.3  # of two layers one number is free
    mg.fit(model, tiny_graph(0.8, seed=0), epochs=30)
    result = mg.gamma.run(model, target, strategy=mg.Matcha(lr=lr, rounds=5))
    twin, seen = copy.deepcopy(model).requires_grad_(True), []
    twin.head.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    for _ in range(5):
        probs = twin(target.x, target.edge_index).softmax(1).detach()
        (slope,) = torch.autograd.grad(mg.PIC()(seen[-1], probs, probs), twin.gamma)
        with torch.no_grad():
            twin.gamma.sub_(slope, alpha=lr)
    torch.testing.assert_close(result.gamma, twin.gamma.detach(), rtol=1e-4, atol=1e-5)
    probs = twin(target.x, target.edge_index).softmax(1).detach()
    torch.testing.assert_close(result.probs, probs, rtol=1e-3, atol=1e-4)
    assert (result.gamma - model.gamma).abs().max() > 1e-3


def test_true_labels_as_predictions_lead_to_the_eigenvector():
    model, graph = trained_model(), tiny_graph()
    answer = torch.eye(3)[graph.y]
    result = mg.gamma.run(model, graph, FixedPrediction(answer), mg.Matcha(lr=2.0, rounds=1000))
    hops = model.hops(mg.unlabelled(graph))
    between = mg.gamma.functional.between_form(
        hops.class_sums(answer), answer.sum(0).double().numpy(), hops.mean, 1e-9
    )
    best = mg.gamma.functional.best_hop_weights(between, hops.gram)
    least = mg.gamma.functional.pic_from_forms(best, between, hops.gram)[0]
    assert result.trace.loss[-1] >= least - 1e-6  # the trace is of float32 hop weights
    assert result.trace.loss[-1] == pytest.approx(least, abs=2e-3)
    assert result.status is mg.Status.CONVERGED


def test_a_homophily_shift_is_repaired():
    model = mg.GPRGNN(50, 2)
    mg.fit(model, mg.datasets.csbm(1000, 50, homophily=0.8, seed=0), epochs=100)
    graph = mg.datasets.csbm(1000, 50, homophily=0.2, seed=1000)
    result = mg.gamma.run(model, graph, strategy=mg.Matcha())
    before = mg.metrics.accuracy(result.probs_before, graph.y)
    after = mg.metrics.accuracy(result.probs, graph.y)
    assert after > before + 0.05
    assert abs(after - before) <= result.changed + 1e-9


def test_the_trace_has_a_row_per_round_and_one_after_the_last():
    result = mg.gamma.run(trained_model(), tiny_graph(), strategy=mg.Matcha(rounds=4))
    rows = result.trace.rows()
    assert [row["round"] for row in rows] == [0, 1, 2, 3, 4]
    assert rows[0]["gamma_0"] == pytest.approx(result.gamma_before[0].item())
    assert rows[-1]["gamma_0"] == pytest.approx(result.gamma[0].item())
    assert rows[0]["loss"] == pytest.approx(result.pic_before)
    assert rows[-1]["loss"] == pytest.approx(result.pic_after)
    assert sum(rows[2][f"share_{c}"] for c in range(3)) == pytest.approx(1)


@pytest.mark.parametrize("moves", ["gamma", "theta", "both"])
def test_only_the_named_parameters_move(moves):
    model, graph = trained_model(), tiny_graph()
    before = copy.deepcopy(model.state_dict())
    result = mg.gamma.run(model, graph, strategy=mg.Matcha(lr=0.1, rounds=3, moves=moves))
    moved = {n for n, t in result.model.state_dict().items() if not torch.equal(t, before[n])}
    theta = {"linear.weight", "linear.bias", "norm.weight", "norm.bias"}
    assert moved == {"gamma": {"gamma"}, "theta": theta, "both": theta | {"gamma"}}[moves]
    assert all(torch.equal(t, before[n]) for n, t in model.state_dict().items())
    assert not any(p.requires_grad for p in result.model.parameters())


def test_theta_and_gamma_together_follow_autograd():
    model, graph = trained_model(), tiny_graph()
    result = mg.gamma.run(model, graph, strategy=mg.Matcha(lr=0.05, rounds=2, moves="both"))
    twin = copy.deepcopy(model).eval()
    moving = [twin.gamma, *twin.encoder_parameters()]
    steps = torch.optim.SGD(moving, lr=0.05)
    for _ in range(2):
        steps.zero_grad()
        z = twin.representation(mg.unlabelled(graph))
        mg.gamma.functional.pic(z, twin.head(z).softmax(-1).detach(), 1e-9).backward()
        steps.step()
    torch.testing.assert_close(result.model.linear.weight, twin.linear.weight.detach())
    torch.testing.assert_close(result.gamma, twin.gamma.detach(), atol=1e-6, rtol=1e-4)


def test_a_collapsed_class_is_named():
    model, graph = trained_model(), tiny_graph()

    class Forgetful(FixedPrediction):
        def predict(self, view, state):
            adapted = not torch.equal(view.gamma, model.gamma)
            answer = torch.eye(3)[torch.zeros(120).long()] if adapted else self._probs
            return mg.Prediction(answer), state

    result = mg.gamma.run(model, graph, Forgetful(torch.eye(3)[graph.y]), mg.Matcha(rounds=1))
    assert result.status is mg.Status.COLLAPSED_CLASS
    assert result.severity == "alarm"
    assert any("none after" in alarm for alarm in result.alarms)


def fraud(homophily, seed):
    """Accounts of which one in twenty is of the rare class."""
    options = {"signal": 2.5, "shares": (0.95, 0.05), "seed": seed}
    return mg.datasets.csbm(1500, 32, homophily=homophily, **options)


@pytest.fixture(scope="module")
def flipped():
    """The published algorithm, whose last round calls nearly every account rare."""
    model, target = mg.GPRGNN(32, 2), fraud(0.92, seed=1)
    mg.fit(model, fraud(0.95, seed=0), epochs=100)
    result = mg.gamma.run(model, target, strategy=mg.Matcha(rounds=100))
    before, after = (mg.metrics.accuracy(p, target.y) for p in (result.probs_before, result.probs))
    assert (before > 0.97, after < 0.1) == (True, True)
    return result


def test_a_run_whose_class_shares_jump_is_an_alarm(flipped):
    assert flipped.status is mg.Status.SHARES_JUMPED
    assert flipped.severity == "alarm"
    first, last = (float((labels == 1).double().mean()) for labels in labels_of(flipped))
    figures = f"class 1 went from {first:.1%} to {last:.1%} of nodes"
    (alarm,) = flipped.alarms
    assert figures in alarm
    assert alarm in flipped.summary()
    assert f"alarm: {alarm}" in repr(flipped)
    assert flipped.summary().endswith("does not compare its result with the source model.")


def labels_of(result):
    return result.labels_before, result.labels


class NotANumber(mg.PIC):
    """A loss that breaks in its third round."""

    def __init__(self):
        super().__init__()
        self._calls = 0

    def from_sums(self, view, prediction, prepared):
        self._calls += 1
        value, slope = super().from_sums(view, prediction, prepared)
        return (math.nan, slope * np.nan) if self._calls >= 3 else (value, slope)


def test_a_loss_that_is_not_finite_stops_at_the_last_finite_gamma():
    result = mg.gamma.run(
        trained_model(), tiny_graph(), strategy=mg.Matcha(loss=NotANumber(), lr=0.05, rounds=10)
    )
    twin = mg.gamma.run(trained_model(), tiny_graph(), strategy=mg.Matcha(lr=0.05, rounds=1))
    assert result.status is mg.Status.NON_FINITE
    assert result.severity == "warning"
    assert torch.equal(result.gamma, twin.gamma)
    assert torch.isfinite(result.probs).all()


def test_progress_is_called_after_each_round():
    calls = []
    mg.gamma.run(
        trained_model(),
        tiny_graph(),
        strategy=mg.Matcha(rounds=3),
        progress=lambda *done: calls.append(done),
    )
    assert calls == [(1, 3), (2, 3), (3, 3)]


def test_runs_are_logged_and_nothing_is_printed(caplog, capsys):
    def adapt():
        return mg.gamma.run(trained_model(), tiny_graph(), strategy=mg.Matcha(rounds=2))

    adapt()
    assert capsys.readouterr() == ("", "")
    with caplog.at_level(logging.INFO, logger="matcha_gnn"):
        result = adapt()
        mg.fit(mg.GPRGNN(6, 3), tiny_graph(), epochs=1)
    said = [record.getMessage() for record in caplog.records]
    assert said[0].startswith("Matcha(")
    assert repr(result) in said[1]
    assert said[2] == "training GPRGNN on 108 nodes"


def test_metrics_are_the_figures_of_the_outcome():
    result = mg.gamma.run(trained_model(), tiny_graph(), strategy=mg.Matcha(rounds=2))
    values = result.metrics()
    assert result.trace.rows()[-1].items() <= (values | {"round": 2}).items()
    assert values["rounds"] == 2
    assert (values["pic_before"], values["pic_after"]) == (result.pic_before, result.pic_after)
    assert {n: v for n, v in values.items() if n.startswith("seconds_")} == {
        f"seconds_{stage}": seconds for stage, seconds in result.seconds.items()
    }
    assert all(type(value) is float and math.isfinite(value) for value in values.values())


def test_the_configuration_holds_every_argument_that_decides():
    strategy = mg.Matcha(lr=0.5, rounds=1)
    result = mg.gamma.run(trained_model(), tiny_graph(), mg.T3A(k=7), strategy, seed=4)
    assert result.configuration() == {
        "method": "t3a",
        "method_parameters": {"k": 7, "scale": "unit"},
        "strategy": "matcha",
        "strategy_version": 2,
        "strategy_parameters": {
            "loss": {"name": "pic", "min_share": 1e-9},
            "lr": 0.5,
            "rounds": 1,
            "moves": "gamma",
            "restart": True,
            "features": "source",
        },
        "seed": 4,
    }
    assert json.loads(json.dumps(result.configuration())) == result.configuration()
