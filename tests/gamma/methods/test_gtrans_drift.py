"""GTrans with drifting statistics against torch's own batch norm in training mode."""

import copy

import pytest
import torch
from torch import nn

from matcha_gnn.gamma.methods import View
from matcha_gnn.gamma.methods.gtrans import ONLY_FOR, GTrans
from matcha_gnn.gamma.methods.whole import drifted_statistics
from matcha_gnn.gamma.testing import tiny_graph, trained_model
from matcha_gnn.graphs.memory import Graph, unlabelled
from unknown_models import Unknown

EDIT = {"lr_feat": 0.02, "epochs": 10, "ratio": 0.2}


def gprgnn():
    return trained_model().frozen()


def layered():
    """The same model, not known to be a filter."""
    return Unknown(trained_model())


def shifted_graph():
    graph = unlabelled(tiny_graph())
    return Graph(graph.x + 2, graph.edge_index, graph.edge_weight)


def view_of(model, graph=None):
    graph = shifted_graph() if graph is None else graph
    return View(model, graph, model.hops(graph, keyed=False), model.gamma.detach().clone(), 0)


def norms_of(model):
    return [m for m in model.modules() if isinstance(m, nn.BatchNorm1d)]


def left_in_training_mode(model, graph, passes):
    """A copy whose norms saw the graph so many times."""
    model = copy.deepcopy(model)
    for norm in norms_of(model):
        norm.train()
    with torch.no_grad():
        for _ in range(passes):
            model.representation(graph)
    for norm in norms_of(model):
        norm.eval()
    return model


@pytest.mark.parametrize("passes", [1, 5])
def test_statistics_drift_as_those_of_a_batch_norm_in_training_mode(passes):
    model = gprgnn()
    view, norm = view_of(model), copy.deepcopy(model.norm).train()
    for _ in range(passes):
        norm(model.linear(view.graph.x))
    drifted = drifted_statistics(view, passes)
    torch.testing.assert_close(drifted["norm.running_mean"], norm.running_mean)
    torch.testing.assert_close(drifted["norm.running_var"], norm.running_var)
    there = model.linear(view.graph.x).mean(0)
    share = (drifted["norm.running_mean"] - model.norm.running_mean) / (
        there - model.norm.running_mean
    )
    torch.testing.assert_close(share, torch.full_like(share, 1 - 0.9**passes), rtol=1e-3, atol=0)


@pytest.mark.parametrize("edit", ["both", "features", "edges"])
@pytest.mark.parametrize("build", [gprgnn, layered])
def test_edit_and_prediction_are_those_of_a_model_that_was_left_in_training_mode(build, edit):
    model = build()
    after = view_of(left_in_training_mode(model, shifted_graph(), 4))
    given = {name: v for name, v in EDIT.items() if ONLY_FOR.get(name, edit) in (edit, "both")}
    given = EDIT if edit == "both" else given
    expected = GTrans(**given, edit=edit).edited(after)
    found = GTrans(**given, edit=edit, drift=4).edited(view_of(model))
    assert torch.equal(found.removed, expected.removed)
    hops = found.target.hops_at(view_of(model)).stack
    torch.testing.assert_close(hops, expected.target.hops_at(after).stack)
    assert not torch.allclose(
        hops,
        GTrans(**given, edit=edit).edited(view_of(model)).target.hops_at(view_of(model)).stack,
        atol=0.05,
    )
