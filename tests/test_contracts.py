"""Every built-in part goes through the shipped batteries; broken parts are caught by them."""

import pytest
import torch
import torch_geometric.nn as pyg
from torch import nn

import matcha_gnn as mg
from matcha_gnn.backbones import BACKBONES
from matcha_gnn.graphs.extras import LABELS
from matcha_gnn.losses import LOSSES
from matcha_gnn.methods import METHODS, Prediction
from matcha_gnn.testing import check_backbone, check_loss, check_method, tiny_graph, trained_model

# Training what is shipped takes longer by default than the whole battery.
QUICK = {"graphpatcher": {"hidden_channels": 8, "iterations": 20}}


@pytest.mark.parametrize("name", METHODS)
def test_methods(name):
    check_method(METHODS[name](**QUICK.get(name, {})))


class NeedsWhatItShips(mg.ERM):
    name = "needs_what_it_ships"

    def require(self, model):
        if not model.artefacts.get(self.name):
            raise mg.IncompatibleError("train with ship=[NeedsWhatItShips()]")

    def ship(self, model, source, labels, labelled, seed):
        return {"weight": torch.bincount(labels[labelled]) / labelled.sum()}

    def predict(self, view, state):
        weight = view.model.artefacts[self.name]["weight"]
        return Prediction((view.logits + weight.log()).softmax(-1)), state


def test_the_battery_ships_what_a_method_needs():
    check_method(NeedsWhatItShips())
    with pytest.raises(mg.IncompatibleError, match="ship="):
        check_method(NeedsWhatItShips(), trained_model())


class Recording(nn.Module):
    """A network that takes a `Data`; every copy notes in one list what it was given."""

    given = []

    def __init__(self):
        super().__init__()
        self.prop = pyg.APPNP(K=2, alpha=0.1)
        self.lin = nn.Linear(6, 3)

    def forward(self, data):
        self.given.append(set(data.to_dict()))
        assert not any(hasattr(data, name) for name in LABELS)
        return self.lin(self.prop(data.x, data.edge_index))


@pytest.mark.parametrize("name", ["erm", "t3a", "soga", "gtrans"])
def test_a_network_that_takes_a_data_is_given_no_labels(name):
    torch.manual_seed(0)
    model, graph = mg.wrap(Recording()), tiny_graph()
    method = METHODS[name](**{"edit": "features"} if name == "gtrans" else {})
    for label in LABELS[1:]:
        graph[label] = torch.ones(graph.num_nodes, dtype=torch.bool)
    graph.pos = torch.ones(graph.num_nodes, 2)
    mg.remember_source(model, graph)
    Recording.given.clear()
    seen = mg.adapt(model, graph, method)
    assert len(Recording.given) > 1
    assert all(names == {"x", "edge_index", "pos"} for names in Recording.given)
    for label in LABELS:
        del graph[label]
    assert torch.equal(seen.probs, mg.adapt(model, graph, method).probs)


@pytest.mark.parametrize("name", LOSSES)
def test_losses(name):
    check_loss(LOSSES[name]())


@pytest.mark.parametrize("name", BACKBONES)
def test_backbones(name):
    check_backbone(BACKBONES[name](6, 3, hidden_channels=8, K=3))


class Unnormalised(mg.ERM):
    def predict(self, view, state):
        return Prediction(view.logits.softmax(-1) * 1.01), state


class MovesTheHead(mg.ERM):
    def predict(self, view, state):
        view.model.head.weight.mul_(1.5)
        return super().predict(view, state)


class SpoilsTheHops(mg.ERM):
    def predict(self, view, state):
        view.hops.stack.mul_(0.5)
        return super().predict(view, state)


class CountsCalls(mg.ERM):
    calls = 0

    def predict(self, view, state):
        type(self).calls += 1
        return Prediction((view.logits / type(self).calls).softmax(-1)), state


class LooksAtNumbers(mg.ERM):
    def predict(self, view, state):
        ramp = torch.linspace(0, 1, len(view.z))[:, None]
        return Prediction((view.logits * ramp).softmax(-1)), state


class BreaksOnOneNode(mg.ERM):
    def predict(self, view, state):
        logits = view.logits / view.logits.std(0)
        return Prediction(logits.softmax(-1)), state


@pytest.mark.parametrize(
    ("method", "says"),
    [
        (Unnormalised, "sum to one"),
        (MovesTheHead, "only gamma should move|should not change|same seed|hiding y"),
        (SpoilsTheHops, "should not change|same seed|hiding y|renumber"),
        (CountsCalls, "hiding y|same seed"),
        (LooksAtNumbers, "renumbering"),
        (BreaksOnOneNode, "one node|equal features"),
    ],
)
def test_the_battery_catches_a_broken_method(method, says):
    with pytest.raises(AssertionError, match=says):
        check_method(method())


class WrongGradient(mg.PIC):
    def from_sums(self, view, prediction, prepared):
        value, slope = super().from_sums(view, prediction, prepared)
        return value, slope * 1.001


def test_the_battery_catches_a_wrong_gradient():
    with pytest.raises(AssertionError, match="gradient"):
        check_loss(WrongGradient())


class ForgetsTheChainRule(mg.GPRGNN):
    def coefficients(self, gamma):
        return gamma**2


def test_the_battery_catches_a_forgotten_chain_rule():
    model = ForgetsTheChainRule(6, 3, hidden_channels=8, K=3, gamma_start=[1.0, 0.5, 0.2, 0.1])
    with pytest.raises(AssertionError, match="chain rule"):
        check_backbone(model)


def test_trained_model_is_a_fresh_copy():
    first = trained_model()
    first.gamma.data.zero_()
    assert trained_model().gamma.abs().sum() > 0
