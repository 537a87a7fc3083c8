"""γ that agrees best with given probabilities, for models that are not linear in cached hops."""

import torch
from torch import Tensor

from matcha_gnn.gamma.strategies.run import Run
from matcha_gnn.typing import Probs

EVALUATIONS = 20
"""How often the model runs."""
_LEAST_GAIN = 1e-9
"""Of cross entropy, by the gradient: where no more is to be gained the fit ends."""
_LEAST_DECREASE, _LEAST_CURVATURE, _LENGTHENING = 1e-4, 1e-10, 4

_Pairs = list[tuple[Tensor, Tensor]]
"""Steps that were taken, and how the gradient changed by each."""


def fit_by_autograd(run: Run, targets: Probs) -> Tensor:
    """Minimise the cross entropy between `targets` and the model's softmax.

    A scale of the logits is fitted beside γ and then discarded, as in `fit_hop_weights`: otherwise
    γ would change only to make predictions less confident. Steps are those of BFGS. A step is
    taken if it decreases the cross entropy, and tried anew at a quarter of its length if not. No
    length comes from an interpolation: between points that are near each other it would turn
    rounding errors, and with them the order of the nodes, into another γ.

    Of the γ tried for targets [N, C] that of the least cross entropy is returned; the model of the
    run does not change.
    """
    gamma, wanted = run.gamma.detach().clone(), targets.to(run.gamma)
    point = torch.cat([gamma.flatten(), gamma.new_zeros(1)]).double()
    value, slope = _cross_entropy(run, wanted, point)
    pairs, length = _Pairs(), 1.0
    for _ in range(EVALUATIONS - 1):
        direction = _descent(slope, pairs)
        decrease = -float(direction @ slope)
        if not decrease > _LEAST_GAIN:
            break
        proposed = point + length * direction
        new_value, new_slope = _cross_entropy(run, wanted, proposed)
        if not new_value <= value - _LEAST_DECREASE * length * decrease:
            length /= _LENGTHENING
            continue
        step, change = proposed - point, new_slope - slope
        if step @ change > _LEAST_CURVATURE * step.norm() * change.norm():
            pairs.append((step, change))
            length = 1.0
        else:
            # Steeper than before: nothing says where it ends.
            length *= _LENGTHENING
        point, value, slope = proposed, new_value, new_slope
    return point[:-1].view_as(gamma).to(gamma)


def _cross_entropy(run: Run, wanted: Probs, point: Tensor) -> tuple[float, Tensor]:
    """The mean over nodes, and its gradient in γ and the logarithm of the scale."""
    here = point.to(run.gamma, copy=True).requires_grad_(True)
    with torch.enable_grad():
        logits = here[-1].exp() * run.logits_at(here[:-1].view_as(run.gamma))
        value = -(wanted * logits.log_softmax(1)).sum(1).mean()
    (slope,) = torch.autograd.grad(value, here)
    return float(value.detach()), slope.double()


def _descent(slope: Tensor, pairs: _Pairs) -> Tensor:
    """The direction of BFGS, by two loops over the pairs: no matrix of the size of γ squared."""
    direction, shares = -slope, list[Tensor]()
    for step, change in reversed(pairs):
        shares.append(step @ direction / (step @ change))
        direction = direction - shares[-1] * change
    if pairs:
        step, change = pairs[0]
        direction = direction * (step @ change) / (change @ change)
    else:
        direction = direction / slope.abs().sum().clamp(min=1)
    for (step, change), share in zip(pairs, reversed(shares), strict=True):
        direction = direction + (share - change @ direction / (step @ change)) * step
    return direction
