"""What a backbone can do is said by its class; packages of others offer theirs by entry points."""

from importlib.metadata import EntryPoint

import pytest
import torch
import torch_geometric.nn as pyg
from own_backbones import SGC, Mean, TwoSteps
from torch import nn

import matcha_gnn as mg
from matcha_gnn import registry
from matcha_gnn.gamma import models as backbones
from matcha_gnn.gamma.testing import check_backbone, tiny_graph

SIZES = (6, 3, 8)


class Convolutions(nn.Module):
    def __init__(self, head):
        super().__init__()
        self.conv, self.lin = pyg.GCNConv(6, 8), head

    def forward(self, x, edge_index):
        return self.lin(self.conv(x, edge_index).relu())


class Propagates(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin1, self.prop, self.lin2 = (
            nn.Linear(6, 8),
            pyg.APPNP(K=2, alpha=0.1),
            nn.Linear(8, 3),
        )

    def forward(self, x, edge_index):
        return self.lin2(self.prop(self.lin1(x).relu(), edge_index))


def added(head):
    return mg.add_hops(Convolutions(head), head="lin")


def curved_head():
    return nn.Sequential(nn.Linear(8, 4), nn.Tanh(), nn.Linear(4, 3))


MODELS = {
    "gprgnn": lambda: mg.GPRGNN(*SIZES),
    "appnp": lambda: mg.APPNP(*SIZES),
    "jknet": lambda: mg.JKNet(*SIZES),
    "gcnii": lambda: mg.GCNII(*SIZES),
    "wrapped": lambda: mg.wrap(Propagates()),
    "added": lambda: added(nn.Linear(8, 3)),
    "added, curved head": lambda: added(curved_head()),
    "third-party": Mean,
    "third-party linear": TwoSteps,
    "third-party filter": lambda: SGC(6, 3),
}
LINEAR = {"gprgnn", "appnp", "jknet", "added", "third-party linear", "third-party filter"}
FILTERS = {"gprgnn", "appnp", "third-party filter"}
TRAINABLE = {"gprgnn", "appnp", "jknet", "gcnii", "third-party filter"}


@pytest.fixture(params=MODELS)
def named(request):
    torch.manual_seed(0)
    return request.param, MODELS[request.param]()


def test_every_model_passes_the_battery(named):
    check_backbone(named[1])


def test_training_and_saving_are_refused_in_one_line_where_they_cannot_be(named, tmp_path):
    name, model = named
    if name in TRAINABLE:
        assert len(mg.fit(model, tiny_graph(), epochs=1).loss) == 1
        return
    with pytest.raises(mg.IncompatibleError, match=f"^fit cannot train {model.name}"):
        mg.fit(model, tiny_graph(), epochs=1)
    with pytest.raises(mg.IncompatibleError, match=f"^{model.name} cannot be built again"):
        mg.save_model(model, tmp_path / "model.safetensors")
    assert not list(tmp_path.iterdir())


def test_a_filter_cannot_have_other_hops_than_powers():
    for name in ("stack", "layers", "representation"):
        with pytest.raises(TypeError, match=f"Other overrides '{name}' of FilterBackbone"):
            type("Other", (mg.GPRGNN,), {name: lambda self, *a: None})


# Broken ones


class HopsMoveWithGamma(TwoSteps):
    def stack(self, graph):
        return super().stack(graph) * (1 + self.gamma.sum())


class LooksAtOthers(SGC):
    def encode(self, x):
        return self.linear(x - x.mean(0))


class OwnFeaturesSeeEdges(TwoSteps):
    def node_features(self, graph):
        return self.head(self.representation(graph))


class KeepsItsWeights(SGC):
    def reset_parameters(self):
        self.head.reset_parameters()


class ForgetsTheIntercept(mg.GPRGNN):
    def move(self, *, offset=None, intercept=None):
        super().move(offset=offset)


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (HopsMoveWithGamma, "should agree|not depend on gamma"),
        (lambda: LooksAtOthers(6, 3), "each node by itself"),
        (OwnFeaturesSeeEdges, "node features should not depend on edges"),
        (lambda: KeepsItsWeights(6, 3), "forget what was trained"),
        (lambda: ForgetsTheIntercept(*SIZES), "intercept should be added"),
    ],
)
def test_the_battery_catches_a_broken_backbone(model, says):
    torch.manual_seed(0)
    with pytest.raises(AssertionError, match=says):
        check_backbone(model())


# Packages of others


@pytest.fixture
def offered(monkeypatch):
    """Pretend that an installed package offers these classes."""

    def offer(**points):
        made = [EntryPoint(name, value, backbones.GROUP) for name, value in points.items()]
        monkeypatch.setattr(
            registry, "entry_points", lambda group: made if group == backbones.GROUP else []
        )

    return offer


def test_a_backbone_of_another_package_is_saved_and_loaded(offered, tmp_path):
    path, model = tmp_path / "model.safetensors", SGC(6, 3)
    with pytest.raises(
        mg.IncompatibleError, match=r"SGC is no architecture.*matcha_gnn\.backbones"
    ):
        mg.save_model(model, path)
    offered(other="no_such_module:Other", sgc="own_backbones:SGC", gprgnn="own_backbones:SGC")
    mg.fit(model, tiny_graph(), epochs=5)
    mg.save_model(model, path)
    back = mg.load_model(path)
    assert type(back) is SGC
    assert torch.equal(back.hops(tiny_graph()).stack, model.hops(tiny_graph()).stack)
    assert back.source.tensors().keys() == model.source.tensors().keys()
    offered()
    with pytest.raises(mg.InvalidFileError, match=r"\(architecture 'sgc'\); allowed: appnp, gcnii"):
        mg.load_model(path)
    offered(sgc="own_backbones:Mean")
    with pytest.raises(mg.InvalidArgumentError, match="allowed: a TrainableBackbone class"):
        mg.load_model(path)
    offered(sgc="no_such_module:SGC")
    with pytest.raises(mg.InvalidArgumentError, match="no_such_module:SGC cannot be imported"):
        mg.load_model(path)
