"""Hop weights that agree best with given probabilities: logistic regression on cached hops."""

from typing import NamedTuple

import torch
from torch import Tensor

from matcha_gnn.methods.base import View
from matcha_gnn.typing import Probs

STEPS = 8
_TOLERANCE, _RIDGE = 1e-5, 1e-4


class Fit(NamedTuple):
    """γ and an intercept.

    Attributes:
        gamma: hop-aggregation parameters.
        intercept: to add to the logits, [C]; zero unless asked for.
        passes: how often the hops were read.
    """

    gamma: Tensor
    intercept: Tensor
    passes: int


class _Sums(NamedTuple):
    value: float
    slope: Tensor
    curvature: Tensor


@torch.no_grad()
def fit_hop_weights(view: View, targets: Probs, *, intercept: bool) -> Fit:
    """Minimise the cross entropy between `targets` and the softmax of the mixed hops' logits.

    Newton steps in γ, each one read of the hops; a step that does not help is halved.

    Args:
        view: a model that mixes cached hops linearly; its γ is the start.
        targets: probabilities to agree with, [N, C].
        intercept: fit one number per class beside γ.
    """
    size, classes = view.gamma.numel(), targets.shape[1]
    free = classes - 1 if intercept else 0
    point = torch.cat([view.gamma.double().flatten(), view.gamma.new_zeros(free).double()])
    sums, passes = _sums(view, targets, point, free), 1
    step_length = 1.0
    while passes < STEPS:
        damping = _RIDGE * sums.curvature.trace() / len(point)
        direction = torch.linalg.solve(
            sums.curvature + damping * torch.eye(len(point)).to(point), sums.slope
        )
        trial = point - step_length * direction
        new, passes = _sums(view, targets, trial, free), passes + 1
        if not new.value < sums.value:
            step_length /= 4
            continue
        gained, sums, point, step_length = sums.value - new.value, new, trial, 1.0
        if gained < _TOLERANCE:
            break
    gamma = point[:size].view_as(view.gamma).to(view.gamma)
    return Fit(gamma, _whole(point[size:], classes).to(view.gamma), passes)


def _whole(free: Tensor, classes: int) -> Tensor:
    """The intercept of all classes; that of the last is zero, as softmax sees differences only."""
    return torch.cat([free, free.new_zeros(classes - len(free))])


def _sums(view: View, targets: Probs, point: Tensor, free: int) -> _Sums:
    """Mean cross entropy, its gradient and its second derivative in γ and intercept."""
    size, classes = view.gamma.numel(), targets.shape[1]
    gamma = point[:size].view_as(view.gamma).to(view.gamma)
    jacobian = _coefficient_slopes(view, gamma)
    coef = view.model.coefficients(gamma).double()
    head = view.model.head
    offset = 0 if head.bias is None else head.bias.double()
    added = _whole(point[size:], classes) + offset
    value, slope = 0.0, torch.zeros_like(point)
    curvature = torch.outer(slope, slope)
    corner = torch.eye(classes, free).to(point)
    for rows, hop_logits in view.hops.hop_logits(head):
        wanted = targets[rows].double()
        logits = torch.einsum("nkc,k->nc", hop_logits, coef) + added
        value -= float((wanted * logits.log_softmax(1)).sum())
        probs = logits.softmax(1)
        inputs = torch.cat(
            [hop_logits.transpose(1, 2) @ jacobian, corner.expand(len(wanted), classes, free)], 2
        )
        slope += torch.einsum("ncp,nc->p", inputs, probs - wanted)
        mean = torch.einsum("ncp,nc->np", inputs, probs)
        scaled = inputs * probs[:, :, None].sqrt()
        flat = scaled.reshape(-1, len(point))
        curvature += flat.T @ flat - mean.T @ mean
    number = view.hops.num_nodes
    sums = view.graph.part.total(value, slope.cpu().numpy(), curvature.cpu().numpy())
    total, of_slope, of_curvature = (torch.from_numpy(each).to(point) / number for each in sums)
    return _Sums(float(total), of_slope, of_curvature)


def _coefficient_slopes(view: View, gamma: Tensor) -> Tensor:
    """dc/dγ, [K+1, size of γ]."""
    with torch.enable_grad():
        slopes: Tensor = torch.autograd.functional.jacobian(  # type: ignore[no-untyped-call]
            lambda g: view.model.coefficients(g), gamma
        )
    return slopes.reshape(slopes.shape[0], -1).double()
