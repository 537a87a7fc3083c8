"""Checks for backbones: cached hops and the plain forward pass agree.

What is checked goes by the class of the model: more for a `LinearBackbone` than for a `Backbone`,
and so on.
"""

import copy

import torch
from torch import Tensor

from matcha_gnn.errors import IncompatibleError
from matcha_gnn.gamma.methods import View
from matcha_gnn.gamma.models import (
    Backbone,
    FilterBackbone,
    LinearBackbone,
    TrainableBackbone,
)
from matcha_gnn.gamma.testing.graphs import FEATURES, tiny_graph
from matcha_gnn.graphs.memory import Graph, unlabelled


def check_backbone(model: Backbone) -> None:
    """Check a backbone for 6 features and 3 classes, trained or not.

    Args:
        model: the model; it is not changed.

    Raises:
        AssertionError: says what was expected.
    """
    # 0 is that of a network that does not say.
    assert model.in_channels in (0, FEATURES), f"give a model for {FEATURES} features"
    model = copy.deepcopy(model).double().frozen()
    _check_predictions(model)
    _check_gamma_gradient(model)
    _check_hops_key(model)
    if isinstance(model, LinearBackbone):
        _check_linear(model)
    if isinstance(model, FilterBackbone):
        _check_filter(model)
    if isinstance(model, TrainableBackbone):
        _check_rebuilds(model)


def _graph() -> Graph:
    graph = tiny_graph()
    graph.x = graph.x.double()
    return unlabelled(graph)


def _close(
    ours: Tensor, expected: Tensor, said: str, rtol: float = 1e-7, atol: float = 1e-7
) -> None:
    torch.testing.assert_close(ours, expected, rtol=rtol, atol=atol, msg=lambda d: f"{said}\n{d}")


def _check_predictions(model: Backbone) -> None:
    graph = _graph()
    view = View(model, graph, model.hops(graph), model.gamma.detach(), seed=0)
    plain = model(graph.x, graph.edge_index)
    _close(view.logits, plain, "cached hops and forward should agree")
    _close(view.classify().probs, plain.softmax(-1), "classify and forward should agree")
    constant = model.head(model.representation(graph, model.constants(graph)))
    _close(constant, plain, "constants and forward should agree")
    _check_parameter_gradients(model, graph)


def _check_parameter_gradients(model: Backbone, graph: Graph) -> None:
    """Of `representation`, which is trained, against those of `forward`, which is the formula."""
    model = copy.deepcopy(model).requires_grad_(True)
    logits = model.head(model.representation(graph)), model(graph.x, graph.edge_index)
    mark, parts = torch.linspace(-1, 1, logits[0].numel()).to(logits[0]), list(model.parameters())
    found, expected = (
        torch.autograd.grad(each.flatten() @ mark, parts, materialize_grads=True, allow_unused=True)
        for each in logits
    )
    for ours, formula in zip(found, expected, strict=True):
        _close(ours, formula, "gradients of representation and forward should agree")


def _check_linear(model: LinearBackbone) -> None:
    graph, gamma = _graph(), model.gamma.detach().clone().requires_grad_(True)
    hop_weights = model.hop_weights(gamma)
    stack = model.stack(graph)
    assert stack.shape[1] == len(hop_weights) == model.num_hops + 1, "there should be K + 1 hops"
    direction = torch.linspace(-1, 1, len(hop_weights), dtype=gamma.dtype)
    (expected,) = torch.autograd.grad(hop_weights @ direction, gamma)
    found = model.gamma_gradient(gamma.detach(), direction)
    _close(found, expected, "gamma_gradient should be the chain rule")
    moved = copy.deepcopy(model)
    with torch.no_grad():
        moved.gamma.mul_(1.25).add_(0.125)
    said = "the hops of a LinearBackbone should not depend on gamma"
    _close(moved.stack(graph), stack, said)
    mixed = torch.einsum("nkd,k->nd", stack, moved.hop_weights(moved.gamma))
    _close(moved.representation(graph), mixed, "Z should be the hops mixed by hop_weights(gamma)")


def _check_filter(model: FilterBackbone) -> None:
    graph = _graph()
    hop = model.encode(model.accept(graph.x))
    for made in model.stack(graph).unbind(1):
        _close(made, hop, "the hops of a FilterBackbone should be powers of P on encode(x)")
        hop = graph.adjacency @ hop
    half = graph.num_nodes // 2
    said = "encode should see each node by itself"
    _close(model.encode(graph.x[:half]), model.encode(graph.x)[:half], said)


def _check_gamma_gradient(model: Backbone) -> None:
    """Autograd through Z against central differences, with and without cached constants."""
    model, target = copy.deepcopy(model), _graph()
    step, gamma = 1e-6, model.gamma.detach().clone()

    def mean_square(at: Tensor) -> Tensor:
        with torch.no_grad():
            model.gamma.copy_(at)
            return model.representation(target).square().mean()

    rows = step * torch.eye(len(gamma)).to(gamma)
    differences = [mean_square(gamma + row) - mean_square(gamma - row) for row in rows]
    expected = torch.stack(differences) / (2 * step)
    mean_square(gamma)
    model.gamma.requires_grad_(True)
    for constants in (None, model.constants(target)):
        loss = model.representation(target, constants).square().mean()
        (found,) = torch.autograd.grad(loss, model.gamma)
        _close(found, expected, "the gradient in gamma should equal differences", 1e-4, 1e-6)


def _check_hops_key(model: Backbone) -> None:
    model = copy.deepcopy(model).float()
    first, other = tiny_graph(0.2), tiny_graph(0.8)
    hops = model.hops(first)
    assert hops.require(model.hops_key(unlabelled(first))) is hops, "hops should be accepted again"
    try:
        hops.require(model.hops_key(other))
    except IncompatibleError:
        return
    raise AssertionError("hops of another graph should be refused")


def _check_rebuilds(model: TrainableBackbone) -> None:
    expected = {name: tensor.shape for name, tensor in model.state_dict().items()}
    for device in ("meta", "cpu"):
        with torch.device(device):
            rebuilt = type(model)(**model.config())
        shapes = {name: tensor.shape for name, tensor in rebuilt.state_dict().items()}
        assert shapes == expected, f"config() should build the same architecture, on {device}"
    drawn = []
    for _ in range(2):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            rebuilt.reset_parameters()
        drawn.append(copy.deepcopy(rebuilt.state_dict()))
        rebuilt.load_state_dict(model.state_dict())
    same = all(drawn[0][name].equal(drawn[1][name]) for name in expected)
    assert same, "reset_parameters() should forget what was trained"
