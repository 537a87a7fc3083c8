"""JKNet against a stack of PyG's GCNConv, in value and gradient."""

import pytest
import torch
import torch_geometric.nn as pyg
from small_models import (
    CLASSES,
    FEATURES,
    NODES,
    WIDTH,
    assert_same,
    directed_edges,
    draw,
    randomised,
    weights,
)

import matcha_gnn as mg
from matcha_gnn.gamma.testing import tiny_graph


def by_pyg(model, x, edge_index, edge_weight):
    z, h = 0, x
    for linear, bias, weight in zip(
        [model.linear, *model.later], model.bias, model.gamma, strict=True
    ):
        conv = pyg.GCNConv(linear.in_features, linear.out_features).double()
        del conv.bias, conv.lin.weight
        conv.bias, conv.lin.weight = bias, linear.weight
        h = conv(h, edge_index, edge_weight).relu()
        z = z + weight * h
    return model.head(z)


@pytest.mark.parametrize("layers", [1, 2, 4])
def test_equals_pygs_layers_in_value_and_gradient(layers):
    model, x = randomised(mg.JKNet(FEATURES, CLASSES, WIDTH, K=layers)), draw(NODES, FEATURES)
    with torch.no_grad():
        model.gamma.copy_(draw(layers, seed=5))
    twin = by_pyg(model, x, directed_edges(), weights())
    assert_same(model(x, directed_edges(), weights()), twin, list(model.parameters()))


def trained():
    model = mg.JKNet(6, 3, hidden_channels=8)
    mg.fit(model, tiny_graph(0.8, seed=0), epochs=30)
    return model


def test_the_sums_give_the_gradient_of_autograd():
    model, target = trained(), tiny_graph(0.2)
    result = mg.gamma.run(model, target, strategy=mg.Matcha(lr=0.5, rounds=1))
    z = model.requires_grad_(True).representation(mg.unlabelled(target))
    probs = model.head(z).softmax(1).detach()
    (slope,) = torch.autograd.grad(mg.PIC()(z, z, probs), model.gamma)
    expected = model.gamma.detach() - 0.5 * slope
    torch.testing.assert_close(result.gamma, expected, rtol=1e-4, atol=1e-5)
    assert not torch.equal(result.gamma, model.gamma)
