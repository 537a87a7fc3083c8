"""GTrans with drifting statistics against torch's own batch norm in training mode."""

import copy

import pytest
import torch
from torch import nn

import matcha_gnn as mg
from matcha_gnn.gamma.methods import View
from matcha_gnn.gamma.methods.gtrans import ONLY_FOR, GTrans
from matcha_gnn.gamma.methods.whole import drifted_statistics
from matcha_gnn.gamma.testing import tiny_graph, trained_model
from matcha_gnn.graphs.memory import Graph, unlabelled
from unknown_models import Unknown

EDIT = {"lr_feat": 0.02, "epochs": 10, "ratio": 0.2}


class TwoNorms(nn.Module):
    """A network whose second norm is fed by its first."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(6, 8), nn.Linear(8, 8)
        self.norms = nn.ModuleList([nn.BatchNorm1d(8, momentum=0.3), nn.BatchNorm1d(8)])
        self.scale, self.head = nn.Parameter(torch.tensor([0.7])), nn.Linear(8, 3)

    def forward(self, x, edge_index):
        h = self.norms[0](self.first(x)).relu()
        h = h + self.scale * torch.zeros_like(h).index_add(0, edge_index[1], h[edge_index[0]])
        return self.head(self.norms[1](self.second(h)).relu())


def gprgnn():
    return trained_model().frozen()


def layered():
    """The same model, not known to be a filter."""
    return Unknown(trained_model())


def two_norms():
    torch.manual_seed(0)
    return mg.wrap(TwoNorms().eval(), "scale", "head").frozen()


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
        norm(model.before_norm(view.graph.x))
    drifted = drifted_statistics(view, passes)
    torch.testing.assert_close(drifted["norm.running_mean"], norm.running_mean)
    torch.testing.assert_close(drifted["norm.running_var"], norm.running_var)
    there = model.before_norm(view.graph.x).mean(0)
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


def test_every_norm_of_a_wrapped_network_drifts_and_still_does_when_gamma_moves():
    model = two_norms()
    after = left_in_training_mode(model, shifted_graph(), 3)
    method = {"epochs": 4, "edit": "features", "lr_feat": 0.02}
    expected = GTrans(**method).edited(view_of(after)).target
    found = GTrans(**method, drift=3).edited(view_of(model)).target
    for scale in (0.7, -1.3):
        for one in (model, after):
            one.gamma.data.fill_(scale)
        hops = found.hops_at(view_of(model)).stack
        torch.testing.assert_close(hops, expected.hops_at(view_of(after)).stack)
