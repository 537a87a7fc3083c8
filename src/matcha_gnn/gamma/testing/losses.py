"""Checks for losses: the two forms agree, and edge cases give finite numbers."""

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from matcha_gnn.gamma.hops import Hops
from matcha_gnn.gamma.losses import Loss
from matcha_gnn.gamma.methods import Prediction, View
from matcha_gnn.gamma.models import Backbone
from matcha_gnn.gamma.testing.graphs import awkward_graphs, tiny_graph, trained_model
from matcha_gnn.graphs.memory import unlabelled
from matcha_gnn.typing import Probs


def check_loss(loss: Loss, tolerance: float = 1e-10) -> None:
    """Check a loss in float64 against autograd on its plain form.

    Args:
        loss: the loss, ready to use.
        tolerance: largest difference allowed between the two forms, in value and gradient.

    Raises:
        AssertionError: says what was expected.
    """
    model = trained_model().double().requires_grad_(False)
    graph = tiny_graph()
    graph.x = graph.x.double()
    view = _view(model, graph)
    for name, probs in _predictions(len(graph.x)).items():
        _check_forms_agree(loss, view, probs, name, tolerance)
    for name, awkward in awkward_graphs().items():
        awkward.x = awkward.x.double()
        small = _view(model, awkward)
        value, slope = loss.from_sums(
            small, Prediction(small.logits.softmax(-1)), loss.prepare(small)
        )
        assert np.isfinite(value), f"{name}: the loss should be finite"
        assert np.isfinite(slope).all(), f"{name}: the gradient should be finite"


def _view(model: Backbone, graph: object) -> View:
    target = unlabelled(graph)  # type: ignore[arg-type]
    hops: Hops = model.hops(target, keyed=False)
    return View(model, target, hops, model.gamma.detach(), seed=0)


def _predictions(num_nodes: int) -> dict[str, Probs]:
    draw, eye = torch.Generator().manual_seed(0), torch.eye(3, dtype=torch.float64)
    soft = torch.rand(num_nodes, 3, generator=draw, dtype=torch.float64)
    soft = soft / soft.sum(1, keepdim=True)
    two = soft * torch.tensor([1.0, 1.0, 0.0])
    return {
        "soft predictions": soft,
        "hard predictions": eye[soft.argmax(1)],
        "a class without mass": two / two.sum(1, keepdim=True),
        "one class only": eye[torch.zeros(num_nodes).long()],
        "uniform predictions": torch.full_like(soft, 1 / 3),
    }


def _check_forms_agree(loss: Loss, view: View, probs: Probs, name: str, tolerance: float) -> None:
    if loss.needs_filter:
        _check_slope(loss, view, probs, name, tolerance)
        return
    hop_weights = view.hop_weights.clone().requires_grad_(True)
    z = torch.einsum("nkd,k->nd", view.hops.stack, hop_weights)
    plain = loss(z, view.model.head(z), probs)
    (gradient,) = torch.autograd.grad(plain, hop_weights)
    value, slope = loss.from_sums(view, Prediction(probs), loss.prepare(view))
    _assert_close(value, plain, f"{name}: value", tolerance)
    _assert_close(slope, gradient, f"{name}: gradient", tolerance)


def _check_slope(loss: Loss, view: View, probs: Probs, name: str, tolerance: float) -> None:
    """Against central differences, for losses that have no plain form."""
    prediction, prepared, step = Prediction(probs), loss.prepare(view), 1e-4

    def value(gamma: Tensor) -> float:
        return loss.from_sums(replace(view, gamma=gamma), prediction, prepared)[0]

    slope = loss.from_sums(view, prediction, prepared)[1]
    steps = step * torch.eye(len(view.gamma), dtype=view.gamma.dtype)
    expected = [(value(view.gamma + s) - value(view.gamma - s)) / (2 * step) for s in steps]
    _assert_close(slope, torch.tensor(expected), f"{name}: gradient", max(tolerance, 1e-6))


def _assert_close(found: object, plain: Tensor, what: str, tolerance: float) -> None:
    apart = float(np.abs(np.asarray(found) - plain.detach().numpy()).max())
    assert apart < tolerance, f"{what}: the two forms differ by {apart:.2e}"
