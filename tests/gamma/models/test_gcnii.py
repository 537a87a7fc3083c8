"""GCNII against PyG's GCN2Conv, in value and gradient, and its path through the loop."""

import copy

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
    h = start = model.linear(x).relu()
    for layer, (alpha, weight) in enumerate(zip(model.gamma, model.weight, strict=True), 1):
        conv = pyg.GCN2Conv(WIDTH, alpha, model.theta, layer).double()
        del conv.weight1
        conv.weight1 = weight
        h = conv(h, start, edge_index, edge_weight).relu()
    return model.head(h)


@pytest.mark.parametrize("layers", [1, 4])
def test_equals_pygs_layers_in_value_and_gradient(layers):
    model = randomised(mg.GCNII(FEATURES, CLASSES, WIDTH, K=layers, alpha=0.3))
    x = draw(NODES, FEATURES)
    with torch.no_grad():
        model.gamma.add_(draw(layers, seed=5) / 10)
    twin = by_pyg(model, x, directed_edges(), weights())
    assert_same(model(x, directed_edges(), weights()), twin, list(model.parameters()))


def trained():
    model = mg.GCNII(6, 3, hidden_channels=8, alpha=0.2)
    mg.fit(model, tiny_graph(0.8, seed=0), epochs=30)
    return model


def written_out(model, target, rounds, lr):
    """Algorithm 1 by autograd, with every product made anew in every round."""
    model = copy.deepcopy(model).requires_grad_(True)
    for _ in range(rounds):
        z = model.representation(mg.unlabelled(target))
        probs = model.head(z).softmax(1).detach()
        (slope,) = torch.autograd.grad(mg.PIC()(z, z, probs), model.gamma)
        with torch.no_grad():
            model.gamma.sub_(slope, alpha=lr)
    return model


def test_rounds_equal_algorithm_1_written_out():
    model, target = trained(), tiny_graph(0.2)
    result, expected = (
        mg.gamma.run(model, target, strategy=mg.Matcha(lr=0.3, rounds=5)),
        written_out(model, target, 5, 0.3),
    )
    torch.testing.assert_close(result.gamma, expected.gamma.detach(), rtol=1e-4, atol=1e-5)
    assert (result.gamma - model.gamma).abs().max() > 0.01
    probs = expected.eval()(target.x, target.edge_index).softmax(1).detach()
    torch.testing.assert_close(result.probs, probs, rtol=1e-3, atol=1e-4)
