"""Checks for backbones: cached hops and the plain forward pass agree."""

import copy

import torch
from torch import Tensor

from matcha_gnn.backbones import Backbone
from matcha_gnn.errors import IncompatibleError
from matcha_gnn.graphs.memory import unlabelled
from matcha_gnn.methods import View
from matcha_gnn.testing.graphs import FEATURES, tiny_graph


def check_backbone(model: Backbone) -> None:
    """Check a backbone for 6 features and 3 classes, trained or not.

    Args:
        model: the model; it is not changed.

    Raises:
        AssertionError: says what was expected.
    """
    assert model.in_channels == FEATURES, f"give a model for {FEATURES} features"
    model = copy.deepcopy(model).double().frozen()
    graph = tiny_graph()
    graph.x = graph.x.double()
    target = unlabelled(graph)
    hops = model.hops(target)
    view = View(model, target, hops, model.gamma.detach(), seed=0)
    plain = model(graph.x, graph.edge_index)
    torch.testing.assert_close(
        view.logits, plain, msg=lambda d: f"cached hops and forward should agree\n{d}"
    )
    probs = view.classify().probs
    torch.testing.assert_close(
        probs, plain.softmax(-1), msg=lambda d: f"classify and forward should agree\n{d}"
    )
    torch.testing.assert_close(
        model.head(model.representation(target, model.constants(target))),
        plain,
        msg=lambda d: f"constants and forward should agree\n{d}",
    )
    if model.mixes_linearly:
        _check_chain_rule(model)
    _check_gamma_gradient(model)
    _check_hops_key(model)
    _check_rebuilds(model)


def _check_chain_rule(model: Backbone) -> None:
    gamma = model.gamma.detach().clone().requires_grad_(True)
    direction = torch.linspace(-1, 1, model.num_hops + 1, dtype=gamma.dtype)
    (expected,) = torch.autograd.grad(model.coefficients(gamma) @ direction, gamma)
    found = model.gamma_gradient(gamma.detach(), direction)
    torch.testing.assert_close(
        found, expected, msg=lambda d: f"gamma_gradient should be the chain rule\n{d}"
    )


def _check_gamma_gradient(model: Backbone) -> None:
    """Autograd through Z against central differences, with and without cached constants."""
    model, graph = copy.deepcopy(model), tiny_graph()
    graph.x = graph.x.double()
    target = unlabelled(graph)
    step, gamma = 1e-6, model.gamma.detach().clone()

    def mean_square(at: Tensor) -> Tensor:
        with torch.no_grad():
            model.gamma.copy_(at)
            return model.representation(target).square().mean()

    sides = [
        gamma + sign * step * row for row in torch.eye(len(gamma)).to(gamma) for sign in (1, -1)
    ]
    values = torch.stack([mean_square(side) for side in sides])
    expected = (values[::2] - values[1::2]) / (2 * step)
    mean_square(gamma)
    model.gamma.requires_grad_(True)
    for constants in (None, model.constants(target)):
        loss = model.representation(target, constants).square().mean()
        (found,) = torch.autograd.grad(loss, model.gamma)
        torch.testing.assert_close(
            found,
            expected,
            rtol=1e-4,
            atol=1e-6,
            msg=lambda d: f"the gradient in gamma should equal differences\n{d}",
        )


def _check_hops_key(model: Backbone) -> None:
    first, other = unlabelled(tiny_graph(0.2)), unlabelled(tiny_graph(0.8))
    hops = copy.deepcopy(model).float().hops(first)
    model = copy.deepcopy(model).float()
    assert hops.require(model.hops_key(first)) is hops, "hops should be accepted again"
    try:
        hops.require(model.hops_key(other))
    except IncompatibleError:
        return
    raise AssertionError("hops of another graph should be refused")


def _check_rebuilds(model: Backbone) -> None:
    rebuilt = type(model)(**model.config())
    rebuilt.load_state_dict(model.state_dict())
    shapes = {name: tensor.shape for name, tensor in rebuilt.state_dict().items()}
    expected = {name: tensor.shape for name, tensor in model.state_dict().items()}
    assert shapes == expected, "config() should build the same architecture again"
