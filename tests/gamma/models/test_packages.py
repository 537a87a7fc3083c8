"""Backbones of others: what they may define, and how an installed package offers one."""

from importlib.metadata import EntryPoint

import pytest
import torch
import torch_geometric.nn as pyg

import matcha_gnn as mg
from matcha_gnn import registry
from matcha_gnn.gamma import models as backbones
from matcha_gnn.gamma.testing import tiny_graph
from own_backbones import SGC, Mean


@pytest.mark.parametrize("build", [Mean, lambda: mg.wrap(pyg.APPNP(K=2, alpha=0.1), "alpha")])
def test_training_and_saving_are_refused_in_one_line_where_they_cannot_be(build, tmp_path):
    model = build()
    with pytest.raises(mg.IncompatibleError, match=f"^fit cannot train {model.name}"):
        mg.fit(model, tiny_graph(), epochs=1)
    with pytest.raises(mg.IncompatibleError, match=f"^{model.name} cannot be built again"):
        mg.save_model(model, tmp_path / "model.safetensors")
    assert not list(tmp_path.iterdir())


def test_a_filter_cannot_have_other_hops_than_powers():
    for name in ("stack", "representation"):
        with pytest.raises(TypeError, match=f"Other overrides '{name}' of FilterBackbone"):
            type("Other", (mg.GPRGNN,), {name: lambda self, *a: None})


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
