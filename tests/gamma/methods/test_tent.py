"""Tent against a plain run of the whole model, its shortcuts, and its edges."""

import copy

import pytest
import torch
from small_runs import (
    answer,
    assert_carrying_on_is_taking_more_steps,
    directed_graph,
    drawn_gprgnn,
)
from torch import nn

import matcha_gnn as mg
from matcha_gnn.gamma.methods.tent import Tent
from matcha_gnn.gamma.testing import tiny_graph
from matcha_gnn.graphs.memory import Graph


def plain_tent(model, graph, method):
    """The whole model in the style of the released code: train mode, torch's own optimizers."""
    model = copy.deepcopy(model)
    model.dropout = 0.0
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


@pytest.mark.parametrize(
    "options",
    [
        {"steps": 0},
        {"steps": 1, "lr": 2.0},
        {"steps": 4, "lr": 0.5},
        {"steps": 3, "lr": 0.1, "optimizer": "adam"},
    ],
)
def test_agrees_with_a_plain_run(options):
    model, graph = drawn_gprgnn(bias=True), directed_graph()
    method = Tent(**options)
    expected, _ = plain_tent(model, graph, method)
    got, _ = answer(method, model, graph)
    torch.testing.assert_close(got.probs, expected, atol=1e-11, rtol=0)


@pytest.mark.parametrize(("classes", "width"), [(2, 8), (3, 2), (5, 3), (2, 1)])
def test_agrees_on_either_side_of_the_head(classes, width):
    model, graph = drawn_gprgnn(classes=classes, width=width), directed_graph()
    method = Tent(steps=3, lr=0.5)
    expected, _ = plain_tent(model, graph, method)
    got, state = answer(method, model, graph)
    torch.testing.assert_close(got.probs, expected, atol=1e-11, rtol=0)
    assert state.point.narrow.shape[1] == min(classes - 1, width)


def test_own_hops_are_those_of_the_adapted_model():
    model, graph = drawn_gprgnn(), directed_graph()
    method = Tent(steps=2, lr=1.0)
    _, adapted = plain_tent(model, graph, method)
    prediction, _ = answer(method, model, graph)
    adapted.requires_grad_(False)
    expected = adapted.stack(graph)
    torch.testing.assert_close(prediction.hops.stack, expected, atol=1e-11, rtol=0)
    probs = adapted.head(prediction.hops.mix(model.gamma)).softmax(-1)
    torch.testing.assert_close(probs, prediction.probs, atol=1e-11, rtol=0)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_carrying_on_is_taking_more_steps(optimizer):
    short, long = (Tent(steps, 0.3, optimizer) for steps in (2, 4))
    assert_carrying_on_is_taking_more_steps(short, long, drawn_gprgnn())


def test_target_statistics_undo_a_shift_and_a_scaling_of_all_features():
    model, graph = drawn_gprgnn(), directed_graph()
    moved = Graph(graph.x * 3 + 7, graph.edge_index, graph.edge_weight)
    model.norm.eps = 1e-15
    straight, shifted = (answer(Tent(steps=2), model, g)[0].probs for g in (graph, moved))
    torch.testing.assert_close(straight, shifted, atol=1e-8, rtol=0)


def without(**options):
    model = mg.GPRGNN(6, 3, hidden_channels=8, K=3)
    model.norm = nn.BatchNorm1d(8, **options)
    return model


def test_a_norm_without_running_statistics_is_fine_for_target_statistics():
    model = without(track_running_stats=False)
    assert mg.gamma.run(model, tiny_graph(), Tent(), mg.Matcha(rounds=1)).probs.isfinite().all()
