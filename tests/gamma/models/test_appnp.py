"""APPNP against PyG's own layer, in value and gradient, and its chain rule."""

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
from torch.nn import functional as F  # noqa: N812

import matcha_gnn as mg
from matcha_gnn.gamma.testing import tiny_graph


def by_pyg(model, x, edge_index, edge_weight):
    h = F.linear(x, model.linear.weight, model.linear.bias)
    h = F.batch_norm(
        h, model.norm.running_mean, model.norm.running_var, model.norm.weight, model.norm.bias
    )
    layer = pyg.APPNP(model.num_hops, model.gamma)
    return layer(h.relu(), edge_index, edge_weight) @ model.head.weight.T


@pytest.mark.parametrize("alpha", [0.1, 0.7, 1.5])
@pytest.mark.parametrize("steps", [0, 1, 4])
def test_equals_pygs_layer_in_value_and_gradient(alpha, steps):
    model = randomised(mg.APPNP(FEATURES, CLASSES, WIDTH, K=steps, alpha=alpha))
    x = draw(NODES, FEATURES)
    twin = by_pyg(model, x, directed_edges(), weights())
    trained = [p for p in model.parameters() if steps or p is not model.gamma]
    assert_same(model(x, directed_edges(), weights()), twin, trained)


@pytest.mark.parametrize("steps", [0, 1, 4])
@pytest.mark.parametrize("gamma", [-0.4, 0.3, 1.6])
def test_the_chain_rule_equals_differences_of_the_coefficients(gamma, steps):
    model = mg.APPNP(6, 3, K=steps).double()
    at, step = torch.tensor([gamma], dtype=torch.float64), 1e-6
    direction = torch.linspace(-1, 2, steps + 1, dtype=torch.float64)
    ends = [model.hop_weights(at + s) @ direction for s in (step, -step)]
    expected = (ends[0] - ends[1]) / (2 * step)
    torch.testing.assert_close(
        model.gamma_gradient(at, direction), expected[None], atol=1e-7, rtol=0
    )


def test_the_steps_of_adaptation_equal_those_on_pygs_layer_by_autograd():
    source, target = tiny_graph(0.8, seed=0), tiny_graph(0.2)
    model = mg.APPNP(6, 3, hidden_channels=8, K=3, alpha=0.3)
    mg.fit(model, source, epochs=30)
    result = mg.gamma.run(model, target, strategy=mg.Matcha(lr=0.5, rounds=4))
    gamma = model.gamma.detach().clone().requires_grad_()
    with torch.no_grad():
        h = model.encode(target.x)
    for _ in range(4):
        z = pyg.APPNP(3, gamma)(h, target.edge_index)
        probs = model.head(z).softmax(1).detach()
        mean, mass = z.mean(0), probs.sum(0)
        centre = probs.T @ z / mass[:, None]
        inter = (mass[:, None] * (centre - mean) ** 2).sum()
        (slope,) = torch.autograd.grad(1 - inter / ((z - mean) ** 2).sum(), gamma)
        gamma = (gamma - 0.5 * slope).detach().requires_grad_()
    torch.testing.assert_close(result.gamma, gamma.detach(), rtol=1e-4, atol=1e-5)
    assert abs(float(result.gamma - model.gamma)) > 0.01
