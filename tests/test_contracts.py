"""Every built-in part passes the checks of matcha_gnn.testing, and broken parts fail them."""

import sys
from dataclasses import dataclass, replace
from typing import ClassVar

import pytest
import torch
import torch_geometric.nn as pyg
from torch import nn
from torch_geometric.data import Data

import matcha_gnn as mg
from matcha_gnn.gamma.losses import LOSSES
from matcha_gnn.gamma.methods import METHODS, Prediction
from matcha_gnn.gamma.models import BACKBONES
from matcha_gnn.gamma.strategies import STRATEGIES, Strategy
from matcha_gnn.gamma.testing import (
    check_backbone,
    check_loss,
    check_method,
    check_strategy,
    tiny_graph,
    trained_model,
)
from matcha_gnn.graphs.extras import LABELS

# Making source arrays takes longer by default than the whole battery.
QUICK = {"graphpatcher": {"hidden_channels": 8, "iterations": 20}}


@pytest.mark.parametrize("name", METHODS)
def test_methods(name):
    check_method(METHODS[name](**QUICK.get(name, {})))


class NeedsArrays(mg.ERM):
    name = "needs_arrays"

    def require(self, model):
        if not model.source_arrays.get(self.name):
            raise mg.IncompatibleError("train with methods=[NeedsArrays()]")

    def source_arrays(self, model, source, labels, labelled, seed):
        return {"weight": torch.bincount(labels[labelled]) / labelled.sum()}

    def predict(self, view, state):
        weight = view.model.source_arrays[self.name]["weight"]
        return Prediction((view.logits + weight.log()).softmax(-1)), state


def test_the_battery_makes_the_arrays_a_method_needs():
    check_method(NeedsArrays())
    with pytest.raises(mg.IncompatibleError, match="methods="):
        check_method(NeedsArrays(), trained_model())


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
    mg.summarise_source(model, graph)
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


@pytest.mark.parametrize(
    "strategy",
    [*(made() for made in STRATEGIES.values()), mg.Unadapted(), mg.ClosedForm(mg.PIC(), rounds=2)]
    + [mg.Matcha(loss=mg.Entropy(), rounds=2, moves="both", optimizer="adam")],
    ids=lambda strategy: strategy.name,
)
def test_strategies(strategy):
    check_strategy(strategy)


def test_strategies_on_another_model():
    deep = mg.GCNII(6, 3, hidden_channels=8, K=2)
    mg.fit(deep, tiny_graph(0.8, seed=0), epochs=60)
    check_strategy(mg.Matcha(rounds=2), deep)
    check_strategy(mg.Fitted(), deep)
    with pytest.raises(AssertionError, match="allow an estimate.*mg.summarise_source"):
        check_strategy(mg.Matcha(rounds=2), mg.GPRGNN(6, 3))


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
    def hop_weights(self, gamma):
        return gamma**2


def test_the_battery_catches_a_forgotten_chain_rule():
    model = ForgetsTheChainRule(6, 3, hidden_channels=8, K=3, gamma_start=[1.0, 0.5, 0.2, 0.1])
    with pytest.raises(AssertionError, match="chain rule"):
        check_backbone(model)


def test_trained_model_is_a_fresh_copy():
    first = trained_model()
    first.gamma.data.zero_()
    assert trained_model().gamma.abs().sum() > 0


@dataclass(frozen=True)
class Sound(mg.Matcha):
    """What the broken ones below are but for one thing."""

    name = "sound"
    rounds: int = 2


@dataclass(frozen=True)
class Nameless(Sound):
    name = ""


@dataclass(frozen=True)
class VersionAsText(Sound):
    version = "1"


@dataclass
class Changeable(Strategy):
    name = "changeable"
    version = 1
    size: int = 1

    def run(self, task):
        return mg.Unadapted().run(task)


@dataclass(frozen=True)
class RecordsNoJSON(Sound):
    def parameters(self):
        return super().parameters() | {"loss": self.loss}


@dataclass(frozen=True)
class RecordsTooLittle(Sound):
    def parameters(self):
        return {}


@dataclass(frozen=True, repr=False)
class PrintsLittle(Sound):
    def __repr__(self):
        return "PrintsLittle()"


@dataclass(frozen=True, repr=False)
class PrintsNoCall(Sound):
    def __repr__(self):
        return f"<{super().__repr__()}>"


@dataclass(frozen=True, repr=False)
class PrintsAnother(Sound):
    def __repr__(self):
        return replace(self, lr=0.5)._call()

    def _call(self):
        return super().__repr__()


@dataclass(frozen=True)
class NegativeProbabilities(Sound):
    def run(self, task):
        result = super().run(task)
        return replace(result, probs=2 * result.probs - 1 / 3)


@dataclass(frozen=True)
class MovesTheCallersModel(Sound):
    def run(self, task):
        task.model.gamma.data.mul_(1.5)
        return super().run(task)


@dataclass(frozen=True)
class MovesTheCallersGraph(Sound):
    def run(self, task):
        task.graph.x.mul_(1.5)
        return super().run(task)


@dataclass(frozen=True)
class FindsLabels(Sound):
    """In the frames of its callers: the graph it is given has none."""

    def run(self, task):
        frame = sys._getframe()
        while not isinstance(frame.f_locals.get("graph"), Data):
            frame = frame.f_back
        labelled = "y" in frame.f_locals["graph"]
        return replace(self, lr=0.1).plain(task) if labelled else self.plain(task)

    def plain(self, task):
        return super().run(task)


@dataclass(frozen=True)
class DrawsWithoutTheSeed(Sound):
    calls: ClassVar[list[int]] = []

    def run(self, task):
        self.calls.append(1)
        return replace(self, lr=1 / len(self.calls)).plain(task)

    def plain(self, task):
        return super().run(task)


@dataclass(frozen=True)
class ReturnsAnotherModel(Sound):
    def run(self, task):
        return replace(super().run(task), model=task.model)


@dataclass(frozen=True)
class NamesAnotherStrategy(Sound):
    def run(self, task):
        return replace(super().run(task), strategy=mg.Fitted())


@dataclass(frozen=True)
class ProposesNothing(Sound):
    def proposals(self, task, base, evidence):
        return iter(())


@pytest.mark.parametrize(
    ("strategy", "says"),
    [
        (Nameless, "name should not be empty"),
        (VersionAsText, "version should be an integer"),
        (Changeable, "size: a strategy should be frozen"),
        (RecordsNoJSON, r"parameters\(\) should be JSON"),
        (RecordsTooLittle, r"parameters\(\) should hold loss"),
        (PrintsLittle, "repr should name loss"),
        (PrintsNoCall, "repr should be a Python expression"),
        (PrintsAnother, "repr should build an equal strategy"),
        (NegativeProbabilities, "should not be negative"),
        (MovesTheCallersModel, "bit-identical"),
        (MovesTheCallersGraph, "bit-identical"),
        (FindsLabels, "hiding y"),
        (DrawsWithoutTheSeed, "hiding y|same seed"),
        (ReturnsAnotherModel, "returned model should give the returned answer"),
        (NamesAnotherStrategy, "should hold the strategy that ran"),
        (ProposesNothing, "a candidate should be offered"),
    ],
)
def test_the_battery_catches_a_broken_strategy(strategy, says):
    with pytest.raises(AssertionError, match=says):
        check_strategy(strategy())


def test_the_sound_one_passes():
    check_strategy(Sound())
