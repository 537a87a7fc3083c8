"""Prediction without adaptation: Z alone stands for the hops, and nothing else changes."""

import copy

import pytest
import torch

import matcha_gnn as mg
from matcha_gnn.gamma.methods import METHODS

READ_Z_ALONE = [method for method in METHODS.values() if not method.needs_hops]
BACKBONES = {"gprgnn": mg.GPRGNN, "appnp": mg.APPNP, "jknet": mg.JKNet}


@pytest.fixture(scope="module")
def target():
    return mg.datasets.csbm(300, 12, homophily=0.3, seed=1)


def trained(kind):
    torch.manual_seed(0)
    model = BACKBONES[kind](12, 2, hidden_channels=8)
    mg.fit(
        model, mg.datasets.csbm(300, 12, homophily=0.8, seed=0), epochs=15, methods=[mg.AdaNPC()]
    )
    return model


@pytest.mark.parametrize("kind", BACKBONES)
@pytest.mark.parametrize("method", READ_Z_ALONE, ids=lambda method: method.name)
def test_the_answer_is_that_from_all_hops(kind, method, target):
    model = trained(kind)
    alone = mg.predict(model, target, method())
    whole = mg.predict(model, target, method(), hops=model.hops(target))
    torch.testing.assert_close(alone.probs, whole.probs, rtol=1e-4, atol=1e-5)
    assert alone.pic_before == alone.pic_after == pytest.approx(whole.pic_before, rel=1e-4)
    assert alone.trace.loss == [alone.pic_before]


def test_a_copy_shares_what_the_source_left_and_nothing_else():
    model = trained("gprgnn")
    found = model.copied()
    assert found.source is model.source
    found.linear.register_forward_hook(lambda *_: None)
    assert not model.linear._forward_hooks
    before = copy.deepcopy(model.state_dict())
    for parameter in found.parameters():
        parameter.data.add_(1)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
