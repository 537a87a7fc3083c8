"""Tent against a plain run of the whole model, its shortcuts, and its edges."""

import copy
import sys
from dataclasses import replace

import pytest
import torch
from small_runs import (
    K,
    answer,
    assert_carrying_on_is_taking_more_steps,
    assert_predicting_leaves_the_state_as_it_was,
    directed_graph,
    drawn_gprgnn,
    view_of,
)
from torch import nn

import matcha_gnn as mg
from matcha_gnn import functional
from matcha_gnn.gamma.methods import tent as module
from matcha_gnn.gamma.methods.tent import Tent
from matcha_gnn.gamma.methods.tuning import AffineTuner, FilterTuner
from matcha_gnn.gamma.testing import check_method, tiny_graph, trained_model
from matcha_gnn.graphs.memory import Graph
from matcha_gnn.kernels import Adjacency
from matcha_gnn.kernels.propagate import sums_of_rows


def model_of(relu=True, **options):
    return drawn_gprgnn(relu=relu, **options)


def plain_tent(model, graph, method):
    """The whole model in the style of the released code: train mode, torch's own optimizers."""
    model = copy.deepcopy(model)
    model.dropout = 0.0
    if method.statistics == "target":
        model.norm.train()
    trained = [model.norm.weight.requires_grad_(), model.norm.bias.requires_grad_()]
    kind = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[method.optimizer]
    optimizer = kind(trained, lr=method.lr)
    for _ in range(method.steps):
        logits = model(graph.x, graph.edge_index, graph.edge_weight)
        loss = torch.distributions.Categorical(logits=logits).entropy().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.norm.momentum = 0.0
    probs = model(graph.x, graph.edge_index, graph.edge_weight).softmax(-1).detach()
    return probs, model


@pytest.mark.parametrize("relu", [True, False])
@pytest.mark.parametrize("statistics", ["target", "source"])
@pytest.mark.parametrize(
    "options",
    [
        {"steps": 0},
        {"steps": 1, "lr": 2.0},
        {"steps": 4, "lr": 0.5},
        {"steps": 3, "lr": 0.1, "optimizer": "adam"},
    ],
)
def test_agrees_with_a_plain_run(relu, statistics, options):
    model, graph = model_of(relu, bias=True), directed_graph()
    method = Tent(**options, statistics=statistics)
    expected, _ = plain_tent(model, graph, method)
    got, _ = answer(method, model, graph)
    torch.testing.assert_close(got.probs, expected, atol=1e-11, rtol=0)


@pytest.mark.parametrize(("classes", "width"), [(2, 8), (3, 2), (5, 3), (2, 1)])
def test_agrees_on_either_side_of_the_head(classes, width):
    model, graph = model_of(classes=classes, width=width), directed_graph()
    method = Tent(steps=3, lr=0.5)
    expected, _ = plain_tent(model, graph, method)
    got, state = answer(method, model, graph)
    torch.testing.assert_close(got.probs, expected, atol=1e-11, rtol=0)
    assert state.point.narrow.shape[1] == min(classes - 1, width)


@pytest.mark.parametrize(
    "method",
    [
        Tent(),
        Tent(steps=3, lr=0.01, optimizer="adam"),
        Tent(statistics="source"),
    ],
    ids=lambda m: f"{m.steps}-{m.optimizer}-{m.statistics}",
)
def test_passes_the_battery(method):
    check_method(method)


@pytest.fixture(scope="module")
def linear_model():
    model = mg.GPRGNN(6, 3, hidden_channels=8, K=3, relu=False)
    mg.fit(model, tiny_graph(0.8, seed=0), epochs=40)
    return model


def test_passes_the_battery_without_a_relu(linear_model):
    check_method(Tent(steps=3), linear_model)


def test_the_slope_of_entropy():
    logits = torch.randn(4, 9, dtype=torch.float64, requires_grad=True)
    loss = torch.distributions.Categorical(logits=logits.T).entropy().mean()
    (expected,) = torch.autograd.grad(loss, logits)
    slope = module.entropy_slope(logits.detach().log_softmax(0))
    torch.testing.assert_close(slope, expected, atol=1e-14, rtol=0)
    expected = functional.entropy_terms(logits.detach().T)[1].T / 9
    torch.testing.assert_close(slope, expected, atol=1e-14, rtol=0)


def test_entropy_falls():
    model, graph = model_of(), directed_graph()
    entropies = [
        functional.entropy(answer(Tent(steps=steps, lr=20.0), model, graph)[0].probs).mean()
        for steps in range(6)
    ]
    assert entropies == sorted(entropies, reverse=True)
    assert entropies[0] - entropies[-1] > 1e-2


def test_adam_is_torchs():
    start = torch.randn(5, dtype=torch.float64)
    theirs = start.clone().requires_grad_()
    optimizer = torch.optim.Adam([theirs], lr=0.3)
    values, moments, descent = {"a": start}, None, module.Descent("adam", 0.3)
    for _ in range(6):
        optimizer.zero_grad()
        theirs.square().square().sum().backward()
        optimizer.step()
        values, moments = descent.step(values, [4 * values["a"].detach() ** 3], moments)
    torch.testing.assert_close(values["a"].detach(), theirs.detach(), atol=1e-12, rtol=0)


# The identity P^k (s·û + t) = s·(P^k û) + (P^k 1) tᵀ


def test_kept_hops_give_the_hops_of_any_scale_and_shift():
    model, graph = model_of(relu=False), directed_graph()
    _, state = answer(Tent(steps=3, lr=1.0), model, graph)
    scale, shift = (state.point.values[name].detach() for name in ("norm.weight", "norm.bias"))
    assert (scale - model.norm.weight).abs().min() > 1e-6
    hidden = model.before_norm(graph.x)
    normal = torch.nn.functional.batch_norm(hidden, None, None, scale, shift, True, eps=1e-5)
    hops, dense = [normal], graph.adjacency.matrix.to_dense()
    for _ in range(K):
        hops.append(dense @ hops[-1])
    expected = torch.stack(hops, 1)
    torch.testing.assert_close(state.tuner.stack(state.point), expected, atol=1e-12, rtol=0)


@pytest.mark.parametrize("relu", [True, False])
def test_own_hops_are_those_of_the_adapted_model(relu):
    model, graph = model_of(relu), directed_graph()
    method = Tent(steps=2, lr=1.0, statistics="source")
    _, adapted = plain_tent(model, graph, method)
    prediction, _ = answer(method, model, graph)
    expected = adapted.frozen().hops(graph).stack
    torch.testing.assert_close(prediction.hops.stack, expected, atol=1e-11, rtol=0)
    probs = adapted.head(prediction.hops.mix(model.gamma)).softmax(-1)
    torch.testing.assert_close(probs, prediction.probs, atol=1e-11, rtol=0)


class Clamped(mg.GPRGNN):
    def after_norm(self, h):
        return h.clamp(-50, 50)


class RowNormed(mg.GPRGNN):
    def after_norm(self, h):
        return h / h.norm(dim=1, keepdim=True)


class Doubled(mg.GPRGNN):
    def after_norm(self, h):
        return h + h.clamp(max=0)


@pytest.mark.parametrize(
    ("model", "tuner"),
    [
        (mg.GPRGNN(6, 3, relu=False), AffineTuner),
        (mg.GPRGNN(6, 3), FilterTuner),
        (Clamped(6, 3), FilterTuner),
        (RowNormed(6, 3), FilterTuner),
        (Doubled(6, 3), FilterTuner),
    ],
)
def test_the_short_cut_is_taken_only_where_nothing_follows_the_norm(model, tuner):
    view = view_of(model.frozen(), directed_graph(torch.float32))
    assert type(Tent().prepare(view).tuner) is tuner


# Counted work


@pytest.fixture
def products(monkeypatch):
    """Shapes of the right-hand sides of all sparse products."""
    seen = []

    def counted(product):
        return lambda self, h, *out: seen.append(tuple(h.shape)) or product(self, h, *out)

    monkeypatch.setattr(Adjacency, "__matmul__", counted(Adjacency.__matmul__))
    return seen


@pytest.mark.parametrize(("classes", "shape"), [(2, (120,)), (3, (120, 2))])
def test_a_step_takes_2k_products_as_wide_as_the_softmax_sees(products, classes, shape):
    model, graph = trained_model(classes), mg.unlabelled(tiny_graph(num_classes=classes))
    method, view = Tent(steps=4), view_of(model.frozen(), graph)
    with torch.no_grad():
        prepared = method.prepare(view)
        products.clear()
        for _ in range(2):
            method.predict(view, method.start(view, prepared))
    assert products == [shape] * (2 * 4 * 2 * K)


def test_without_a_relu_no_step_or_round_takes_a_product(monkeypatch, linear_model):
    graph = mg.unlabelled(tiny_graph())
    hops, products = linear_model.hops(graph), []

    def counted(*given):
        products.append(1)
        return sums_of_rows(*given)

    monkeypatch.setattr(sys.modules["matcha_gnn.kernels.propagate"], "sums_of_rows", counted)
    mg.adapt(linear_model, graph, Tent(steps=5), mg.Matcha(rounds=4, features="base"), hops=hops)
    # The hops of the adapted model, once.
    assert len(products) == K


def test_features_are_read_once_for_a_target(monkeypatch):
    calls = []
    before_norm = mg.GPRGNN.before_norm
    monkeypatch.setattr(
        mg.GPRGNN, "before_norm", lambda self, x: calls.append(1) or before_norm(self, x)
    )
    model, graph = trained_model(), mg.unlabelled(tiny_graph())
    hops = model.hops(graph)
    calls.clear()
    mg.adapt(model, graph, Tent(steps=3), mg.Matcha(rounds=4), hops=hops)
    assert len(calls) == 1


def test_own_hops_are_made_for_who_asks_only(monkeypatch):
    calls = []
    stack = FilterTuner.stack
    monkeypatch.setattr(
        FilterTuner, "stack", lambda self, point: calls.append(1) or stack(self, point)
    )
    source = mg.adapt(trained_model(), tiny_graph(), Tent(), mg.Matcha(rounds=3))
    assert not calls
    base = mg.adapt(trained_model(), tiny_graph(), Tent(), mg.Matcha(rounds=3, features="base"))
    assert len(calls) == 4
    assert (source.gamma - base.gamma).abs().max() > 1e-4


# State


@pytest.mark.parametrize("relu", [True, False])
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_carrying_on_is_taking_more_steps(relu, optimizer):
    short, long = (Tent(steps, 0.3, optimizer) for steps in (2, 4))
    assert_carrying_on_is_taking_more_steps(short, long, model_of(relu))


def test_predicting_leaves_the_state_as_it_was():
    assert_predicting_leaves_the_state_as_it_was(Tent(3, 0.3, "adam"))


def test_restarting_each_round_begins_at_the_source():
    model, graph, still = trained_model(), tiny_graph(), mg.Matcha(lr=1e-12, rounds=3)
    fresh = mg.adapt(model, graph, Tent(steps=2), still).probs
    alone = mg.predict(model, graph, Tent(steps=2)).probs
    carried = mg.adapt(model, graph, Tent(steps=2), replace(still, restart=False)).probs
    torch.testing.assert_close(fresh, alone, atol=1e-6, rtol=0)
    assert (carried - alone).abs().max() > 1e-3


# What goes wrong elsewhere


def test_one_step_has_an_effect():
    model, graph = trained_model(), tiny_graph()
    probs = [mg.predict(model, graph, Tent(steps=s)).probs for s in (0, 1)]
    assert (probs[0] - probs[1]).abs().max() > 1e-3


def test_dropout_stays_off():
    model, graph = trained_model(), tiny_graph()
    quiet = copy.deepcopy(model)
    quiet.dropout = 0.0
    model.train()
    got, expected = (
        mg.adapt(m, graph, Tent(steps=3), mg.Matcha(rounds=2)).probs for m in (model, quiet)
    )
    assert torch.equal(got, expected)
    assert model.training


def test_target_statistics_undo_a_shift_and_a_scaling_of_all_features():
    model, graph = model_of(), directed_graph()
    moved = Graph(graph.x * 3 + 7, graph.edge_index, graph.edge_weight)
    model.norm.eps = 1e-15
    straight, shifted = (answer(Tent(steps=2), model, g)[0].probs for g in (graph, moved))
    torch.testing.assert_close(straight, shifted, atol=1e-8, rtol=0)
    source = [answer(Tent(2, statistics="source"), model, g)[0].probs for g in (graph, moved)]
    assert (source[0] - source[1]).abs().max() > 1e-2


def test_source_statistics_without_steps_are_erm():
    model, graph = trained_model(), tiny_graph()
    got = mg.adapt(model, graph, Tent(steps=0, statistics="source"), mg.Matcha(rounds=3))
    expected = mg.adapt(model, graph, strategy=mg.Matcha(rounds=3))
    torch.testing.assert_close(got.probs, expected.probs, atol=1e-5, rtol=0)


def test_sparse_features():
    graph = tiny_graph()
    graph.x = graph.x.relu()
    dense = mg.adapt(trained_model(), graph, Tent(steps=3), mg.Matcha(rounds=2)).probs
    graph.x = graph.x.to_sparse()
    sparse = mg.adapt(trained_model(), graph, Tent(steps=3), mg.Matcha(rounds=2)).probs
    torch.testing.assert_close(sparse, dense, atol=1e-5, rtol=0)


@pytest.mark.parametrize("relu", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_one_class_predicted_with_certainty(relu, dtype):
    model, graph = model_of(relu, bias=True, dtype=dtype), directed_graph(dtype)
    model.head.bias[0] = 1e4
    probs = answer(Tent(steps=5, lr=10.0), model, graph)[0].probs
    assert probs.dtype is dtype
    torch.testing.assert_close(probs[:, 0], torch.ones(40, dtype=dtype))
    assert torch.isfinite(probs).all()


def test_large_steps_stay_finite():
    model, graph = model_of(dtype=torch.float32), directed_graph(torch.float32)
    assert torch.isfinite(answer(Tent(steps=10, lr=1e4), model, graph)[0].probs).all()


# Refusals


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"steps": -1}, "steps: got -1"),
        ({"steps": 1.5}, "steps: got 1.5"),
        ({"lr": 0.0}, "lr: got 0.0"),
        ({"lr": float("nan")}, "lr: got nan"),
        ({"optimizer": "lbfgs"}, "optimizer: got 'lbfgs'; allowed: sgd, adam"),
        ({"statistics": "both"}, "statistics: got 'both'; allowed: target, source"),
    ],
)
def test_refuses_bad_arguments(options, says):
    with pytest.raises(mg.InvalidArgumentError, match=says):
        Tent(**options)


def test_settings_are_the_arguments():
    assert Tent(3, 0.1, "adam", "source").settings() == {
        "steps": 3,
        "lr": 0.1,
        "optimizer": "adam",
        "statistics": "source",
    }


class NoNorm(mg.GPRGNN):
    def __init__(self):
        super().__init__(6, 3, hidden_channels=8, K=3)
        self.norm = None

    def encode(self, x):
        return self.linear(x)


def without(**options):
    model = mg.GPRGNN(6, 3, hidden_channels=8, K=3)
    model.norm = nn.BatchNorm1d(8, **options)
    return model


@pytest.mark.parametrize(
    ("model", "method", "says"),
    [
        (NoNorm(), Tent(), "tent: NoNorm has no batch norm"),
        (without(affine=False), Tent(), "tent: GPRGNN has no batch norm with scale and shift"),
        (without(track_running_stats=False), Tent(statistics="source"), "no source statistics"),
    ],
)
def test_refuses_models_it_cannot_adapt(model, method, says):
    with pytest.raises(mg.IncompatibleError, match=says):
        mg.adapt(model, tiny_graph(), method, mg.Matcha())


def test_a_norm_without_running_statistics_is_fine_for_target_statistics():
    model = without(track_running_stats=False)
    assert mg.adapt(model, tiny_graph(), Tent(), mg.Matcha(rounds=1)).probs.isfinite().all()
