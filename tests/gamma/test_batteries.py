"""Every built-in part passes the checks of matcha_gnn.gamma.testing, and broken parts fail them."""

import ast
import re
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
from torch import nn
from torch_geometric.data import Data

import matcha_gnn as mg
from matcha_gnn.gamma.losses import LOSSES
from matcha_gnn.gamma.methods import METHODS, Prediction
from matcha_gnn.gamma.models import BACKBONES
from matcha_gnn.gamma.strategies import STRATEGIES
from matcha_gnn.gamma.testing import (
    check_backbone,
    check_loss,
    check_method,
    check_strategy,
    tiny_graph,
    trained_model,
)
from own_backbones import SGC, HiddenNorm, Mean, TwoSteps
from unknown_models import Unknown, UnknownNet

# Making source arrays takes longer by default than the whole battery.
SMALL = {"hidden_channels": 8, "iterations": 20}
QUICK = {"graphpatcher": SMALL, "gtrans": {"epochs": 5}}
SIZES = (6, 3, 8)
VARIANTS = [
    *(kind(**QUICK.get(name, {})) for name, kind in METHODS.items()),
    mg.AdaNPC(k=10, temperature=0.001),
    mg.SOGA(steps=3, optimizer="adam"),
    mg.T3A(k=-1, scale="model"),
    mg.Tent(steps=3, lr=0.01, optimizer="adam"),
    mg.GTrans(epochs=5, refresh="each"),
    mg.GTrans(epochs=5, edit="features"),
    mg.GTrans(epochs=5, edit="edges"),
    mg.GTrans(epochs=5, drift=3),
    mg.GraphPatcher("source", **SMALL),
]


def trained(build):
    model = build(*SIZES)
    mg.fit(model, tiny_graph(0.8, seed=0), epochs=30)
    return model


def wrapped():
    return mg.wrap(UnknownNet(trained_model()), "temp", "head")


def hidden_norm():
    model = HiddenNorm(6, 3)
    mg.fit(model, tiny_graph(0.8), epochs=20)
    return model


@pytest.mark.parametrize("method", VARIANTS, ids=repr)
def test_methods(method):
    check_method(method)


@pytest.mark.parametrize(
    ("method", "build"),
    [
        (mg.T3A(), lambda: trained(mg.APPNP)),
        (mg.T3A(), lambda: trained(mg.JKNet)),
        (mg.LAME(), lambda: trained(mg.GCNII)),
        (mg.Tent(), lambda: Unknown(trained_model())),
        (mg.SOGA(), lambda: Unknown(trained_model())),
        (mg.SOGA(), lambda: trained(mg.JKNet)),
        (mg.SOGA(), lambda: trained(mg.GCNII)),
        (mg.Tent(), hidden_norm),
        (mg.GTrans(epochs=5), lambda: trained(mg.GCNII)),
        (mg.GTrans(epochs=5), wrapped),
        (mg.GraphPatcher(**SMALL), lambda: trained(mg.JKNet)),
        (mg.GraphPatcher(**SMALL), wrapped),
    ],
)
def test_methods_around_other_models(method, build):
    model, graph = build(), tiny_graph(0.8, seed=0)
    everyone = torch.ones(graph.num_nodes, dtype=torch.bool)
    arrays = method.source_arrays(model, mg.unlabelled(graph), graph.y, everyone, seed=0)
    model.source_arrays = {method.name: arrays}
    check_method(method, model)


@pytest.mark.parametrize("name", METHODS)
def test_sparse_features_and_a_model_in_training_mode_give_the_same(name):
    method = METHODS[name](**QUICK.get(name, {}))
    model, graph = trained_model(methods=[method]), tiny_graph()
    graph.x = graph.x.relu()
    dense = mg.gamma.run(model, graph, method, mg.Matcha(rounds=2)).probs
    assert mg.gamma.run(model.train(), graph, method, mg.Matcha(rounds=2)).probs.equal(dense)
    assert model.training
    graph.x = graph.x.to_sparse()
    sparse = mg.gamma.run(model, graph, method, mg.Matcha(rounds=2)).probs
    torch.testing.assert_close(sparse, dense, atol=1e-4, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", METHODS)
def test_one_class_that_is_predicted_with_certainty(name, dtype):
    method = METHODS[name](**QUICK.get(name, {}))
    model, graph = trained_model(methods=[method]).to(dtype), tiny_graph()
    model.head = nn.Linear(8, 3).to(dtype).requires_grad_(False)
    model.head.weight.mul_(1e-3)
    model.head.bias.copy_(torch.tensor([0.0, 1e4, 0.0]))
    for strategy in (mg.Unadapted(), mg.Matcha(rounds=2)):
        probs = mg.gamma.run(model, graph, method, strategy).probs
        assert probs.dtype == dtype
        torch.testing.assert_close(probs.sum(1), torch.ones(120, dtype=dtype))


@pytest.mark.parametrize("name", LOSSES)
def test_losses(name):
    check_loss(LOSSES[name]())


MODELS = {
    **{name: lambda kind=kind: kind(*SIZES, K=3) for name, kind in BACKBONES.items()},
    **{f"appnp, {a}": lambda a=a: mg.APPNP(*SIZES, K=3, alpha=a) for a in (-0.4, 0.0, 1.0, 1.6)},
    "wrapped": wrapped,
    "added": lambda: mg.add_hops(UnknownNet(trained_model()), head="head"),
    "added to the output": lambda: mg.add_hops(UnknownNet(trained_model())),
    "third-party": Mean,
    "third-party linear": TwoSteps,
    "third-party filter": lambda: SGC(6, 3),
}


@pytest.mark.parametrize("name", MODELS)
def test_backbones(name):
    torch.manual_seed(0)
    check_backbone(MODELS[name]())


@pytest.mark.parametrize(
    "strategy",
    [
        *(made() for made in STRATEGIES.values()),
        mg.Unadapted(),
        mg.ClosedForm(loss=mg.PIC(), rounds=2),
    ]
    + [mg.Matcha(loss=mg.Entropy(), rounds=2, moves="both")],
    ids=lambda strategy: strategy.name,
)
def test_strategies(strategy):
    check_strategy(strategy)


def test_strategies_on_another_model():
    deep = mg.GCNII(6, 3, hidden_channels=8, K=2)
    mg.fit(deep, tiny_graph(0.8, seed=0), epochs=60)
    check_strategy(mg.Matcha(rounds=2), deep)


class Unnormalised(mg.ERM):
    def predict(self, view, state):
        return Prediction(view.logits.softmax(-1) * 1.01), state


class MovesTheHead(mg.ERM):
    def predict(self, view, state):
        view.model.head.weight.mul_(1.5)
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
    model = ForgetsTheChainRule(6, 3, hidden_channels=8, K=3, alpha=0.5)
    with pytest.raises(AssertionError, match="chain rule"):
        check_backbone(model)


class HopsMoveWithGamma(TwoSteps):
    def stack(self, graph):
        return super().stack(graph) * (1 + self.gamma.sum())


class LooksAtOthers(SGC):
    def encode(self, x):
        return self.linear(x - x.mean(0))


class KeepsItsWeights(SGC):
    def reset_parameters(self):
        self.head.reset_parameters()


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (HopsMoveWithGamma, "should agree|not depend on gamma"),
        (lambda: LooksAtOthers(6, 3), "each node by itself"),
        (lambda: KeepsItsWeights(6, 3), "forget what was trained"),
    ],
)
def test_the_battery_catches_a_broken_backbone(model, says):
    torch.manual_seed(0)
    with pytest.raises(AssertionError, match=says):
        check_backbone(model())


def test_own_parts_on_the_page_take_thirty_lines_at_most():
    page = (Path(__file__).parents[2] / "docs" / "extend.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    parts = [node for block in blocks for node in ast.parse(block).body]
    sizes = {n.name: n.end_lineno - n.lineno + 1 for n in parts if isinstance(n, ast.ClassDef)}
    assert sizes.keys() == {"Smooth", "Gini", "SGC", "LowestLoss"}
    assert max(sizes.values()) <= 30


@dataclass(frozen=True)
class Sound(mg.Matcha):
    """What the broken ones below are but for one thing."""

    name = "sound"
    rounds: int = 2


@dataclass(frozen=True)
class VersionAsText(Sound):
    version = "1"


@dataclass(frozen=True)
class RecordsTooLittle(Sound):
    def parameters(self):
        return {}


@dataclass(frozen=True, repr=False)
class PrintsNoCall(Sound):
    def __repr__(self):
        return f"<{super().__repr__()}>"


@dataclass(frozen=True)
class NegativeProbabilities(Sound):
    def seek(self, task):
        result = super().seek(task)
        own, taken = result.candidates
        return replace(result, candidates=(own, replace(taken, probs=2 * taken.probs - 1 / 3)))


@dataclass(frozen=True)
class MovesTheCallersGraph(Sound):
    def seek(self, task):
        task.graph.x.mul_(1.5)
        return super().seek(task)


@dataclass(frozen=True)
class FindsLabels(Sound):
    """In the frames of its callers: the graph it is given has none."""

    def seek(self, task):
        frame = sys._getframe()
        while not isinstance(frame.f_locals.get("graph"), Data):
            frame = frame.f_back
        labelled = "y" in frame.f_locals["graph"]
        return replace(self, lr=0.1).plain(task) if labelled else self.plain(task)

    def plain(self, task):
        return super().seek(task)


@dataclass(frozen=True)
class ReturnsAnotherModel(Sound):
    def seek(self, task):
        result = super().seek(task)
        own, taken = result.candidates
        return replace(result, candidates=(own, replace(taken, model=task.model)))


@dataclass(frozen=True)
class NamesAnotherStrategy(Sound):
    def seek(self, task):
        return replace(super().seek(task), strategy=mg.ClosedForm())


@pytest.mark.parametrize(
    ("strategy", "says"),
    [
        (VersionAsText, "version should be an integer"),
        (RecordsTooLittle, r"parameters\(\) should hold loss"),
        (PrintsNoCall, "repr should be a Python expression"),
        (NegativeProbabilities, "should not be negative"),
        (MovesTheCallersGraph, "bit-identical"),
        (FindsLabels, "hiding y"),
        (ReturnsAnotherModel, "returned model should give the returned answer"),
        (NamesAnotherStrategy, "should hold the strategy that ran"),
    ],
)
def test_the_battery_catches_a_broken_strategy(strategy, says):
    with pytest.raises(AssertionError, match=says):
        check_strategy(strategy())


def test_the_sound_one_passes():
    check_strategy(Sound())
