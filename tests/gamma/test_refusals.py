"""Refusals whose advice matters: one line that says what would go."""

import pytest
import torch
from torch import nn

import matcha_gnn as mg
from matcha_gnn.gamma.testing import tiny_graph, trained_model
from unknown_models import UnknownNet


@pytest.mark.parametrize(
    ("make", "given", "said"),
    [
        (mg.Matcha, {"loss": mg.PIC}, "loss: got the class PIC; allowed: a Loss, such as mg.PIC()"),
        (mg.Matcha, {"method": mg.T3A}, "method: got the class T3A; allowed: a BaseMethod, such"),
        (mg.Tent, {"optimizer": "lbfgs"}, "optimizer: got 'lbfgs'; allowed: sgd, adam"),
        (mg.Matcha, {"features": "base", "moves": "both"}, "features: got 'base'; allowed: source"),
        (mg.T3A, {"k": True}, "k: got True; allowed: an integer >= 1"),
        (mg.GTrans, {"edit": "features", "ratio": 0.5}, "ratio: got 0.5; allowed: 0.1 unless edit"),
        (mg.GTrans, {"epochs": 4}, "epochs: got 4; allowed: 0, or an integer >= 5, the steps"),
        (mg.GTrans, {"refresh": 3}, "refresh: got 3; allowed: once, each"),
        (mg.GPRGNN, {"dropout": 1}, "dropout: got 1; allowed: a rate in [0, 1)"),
        (mg.GPRGNN, {"out_channels": 1}, "out_channels: got 1; allowed: an integer >= 2"),
    ],
)
def test_arguments(make, given, said):
    sizes = {"in_channels": 4, "out_channels": 2} if issubclass(make, mg.Backbone) else {}
    with pytest.raises(mg.InvalidArgumentError) as caught:
        make(**sizes | given)
    assert str(caught.value).startswith(said)


def without_norm():
    model = trained_model()
    model.norm = nn.BatchNorm1d(8, affine=False)
    return model


def without_statistics():
    model = trained_model()
    model.norm = nn.BatchNorm1d(8, track_running_stats=False)
    return model


def other_patcher(broken):
    model = trained_model(methods=[mg.GraphPatcher(hidden_channels=4, iterations=1)])
    arrays = model.source_arrays["graphpatcher"]
    if broken:
        del arrays["merge.weight"]
    else:
        arrays["first.weight"] = torch.zeros(4, 7)
    return model


def without_summary():
    model = trained_model()
    model.source = None
    return model


def deep():
    return mg.GCNII(6, 3)


@pytest.mark.parametrize(
    ("build", "method", "strategy", "said"),
    [
        (without_norm, mg.Tent(), None, "tent: GPRGNN has no batch norm with scale and shift"),
        (without_statistics, mg.GTrans(drift=5), None, "no batch norm with statistics to drift"),
        (deep, mg.Tent(), None, "tent: GCNII has no batch norm"),
        (trained_model, mg.AdaNPC(), None, r"fit\(..., methods=\[AdaNPC\(\)\]\)"),
        (trained_model, mg.GraphPatcher(), None, r"methods=\[GraphPatcher\(\)\]"),
        (lambda: other_patcher(True), mg.GraphPatcher(), None, "does not fit"),
        (lambda: other_patcher(False), mg.GraphPatcher(), None, "does not fit"),
        (trained_model, mg.T3A(), mg.Matcha(restart=False), "restart: False has no effect with t3"),
        (trained_model, mg.ERM(), mg.Matcha(features="base"), "'base' has no effect with erm"),
        (deep, mg.ERM(), mg.Matcha(features="base"), "features: 'base' needs cached hops"),
        (trained_model, mg.ERM(), mg.ClosedForm(loss=mg.Entropy()), "no minimum in closed form"),
        (lambda: mg.APPNP(6, 3), mg.ERM(), mg.ClosedForm(loss=mg.PIC()), "hop weights that are fr"),
        (trained_model, mg.ERM(), mg.Matcha(loss=mg.SURE(), moves="theta"), "'sure' needs moves"),
        (without_summary, mg.ERM(), mg.Matcha(loss=mg.SURE()), "noise_share"),
        (lambda: torch.full((120, 3), 1 / 3), mg.T3A(), None, "has no hop weights to move"),
        (
            lambda: mg.add_hops(UnknownNet(trained_model()), "head"),
            mg.GTrans(epochs=5),
            None,
            'added hops .* use edit="features"',
        ),
    ],
)
def test_what_does_not_go_together(build, method, strategy, said):
    with pytest.raises(mg.IncompatibleError, match=said) as caught:
        mg.gamma.run(build(), tiny_graph(), method, strategy or mg.Unadapted())
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"method": "t3"}, "method: got 't3' .did you mean t3a.*; allowed: adanpc, "),
        ({"strategy": "match"}, "strategy: got 'match' .did you mean matcha"),
        ({"method": 3}, "method: got a int; .*mg.T3A()"),
        ({"strategy": mg.Matcha}, "strategy: got the class Matcha; .*mg.Matcha()"),
        ({"model": mg.GPRGNN}, "model: got the class GPRGNN; "),
        ({"model": "m.safetensors"}, "model: got the str .*; allowed: a trained torch.nn.Module"),
        ({"progress": 3}, "progress: got a int; allowed: a function"),
        ({"seed": 1.5}, "seed: got 1.5; allowed: an integer from 0 to "),
    ],
)
def test_slips_in_a_call(given, said):
    with pytest.raises(mg.InvalidArgumentError, match=said):
        mg.gamma.run(**{"model": trained_model(), "graph": tiny_graph()} | given)
