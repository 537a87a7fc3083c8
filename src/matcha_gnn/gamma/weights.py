"""Hop weights that agree best with given probabilities: logistic regression on cached hops."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from matcha_gnn.errors import IncompatibleError
from matcha_gnn.gamma.methods.base import View
from matcha_gnn.gamma.models import LinearBackbone
from matcha_gnn.typing import FloatArray, Probs

STEPS = 8
_TOLERANCE, _RIDGE = 1e-7, 1e-4
"""Mean cross entropy that another step must be expected to gain; what keeps a step finite."""
SAMPLE_EXCESS = 3e-4
"""Mean cross entropy by which a minimum on a sample may exceed that on all nodes: one Newton step
from there ends below the tolerance, as its error is about the square of the one before."""


class Fit(NamedTuple):
    """γ, an intercept of the logits [C], zero unless it is fitted, and how often hops were read."""

    gamma: Tensor
    intercept: Tensor
    passes: int


class _Sums(NamedTuple):
    value: float
    slope: FloatArray
    curvature: FloatArray


@torch.no_grad()
def fit_hop_weights(view: View, targets: Probs, *, intercept: bool) -> Fit:
    """Minimise the cross entropy between `targets` and the softmax of the mixed hops' logits.

    Newton steps in γ, first on a sample of nodes, then on all of them, each one read of the hops; a
    step that does not help is shortened. Where γ cannot scale the mixture by itself, as APPNP's α,
    a scale of the logits is fitted as well and then discarded: otherwise α would change only to
    make predictions less confident.

    Args:
        view: a model that mixes cached hops linearly; its γ is the start.
        targets: probabilities to agree with, [N, C].
        intercept: fit one number per class beside γ.
    """
    model = view.model
    if not isinstance(model, LinearBackbone):
        raise IncompatibleError(
            f"hop weights are fitted to cached hops, which {model.name} has not"
        )
    whole = _Regression(view, model, targets, intercept)
    point, passes = whole.start(), 0
    every = view.hops.num_nodes // sample_size(len(point))
    if every > 1:
        point, _ = _minimise(whole.sampled(every), point)
        passes = 1
    point, read = _minimise(whole, point)
    gamma, added, scale = whole.split(point)
    return Fit(gamma, (added / scale).to(view.gamma), passes + read)


def sample_size(numbers: int) -> int:
    """Nodes on which so many numbers are fitted within `SAMPLE_EXCESS` of the minimum on all.

    Maximum likelihood from n nodes has an expected excess of half a number per node, p / 2n.
    """
    return int(numbers / (2 * SAMPLE_EXCESS))


def _minimise(regression: "_Regression", point: Tensor) -> tuple[Tensor, int]:
    """Newton's method from a point: where it ends, and how often all nodes were read."""
    sums, reads, step_length = regression.sums(point), 1, 1.0
    while reads < STEPS:
        damping = _RIDGE * np.trace(sums.curvature) / len(point)
        try:
            direction = np.linalg.solve(sums.curvature + damping * np.eye(len(point)), sums.slope)
        except np.linalg.LinAlgError:  # predictions do not depend on γ
            break
        if not sums.slope @ direction >= 2 * _TOLERANCE:
            break
        proposed = point - step_length * torch.from_numpy(direction).to(point)
        new, reads = regression.sums(proposed), reads + 1
        if not new.value < sums.value:
            step_length /= 4
            continue
        sums, point, step_length = new, proposed, 1.0
    return point, reads


class _Regression(NamedTuple):
    """Probabilities [N, C] as softmax(scale · (Σ_k c_k(γ) H_k Wᵀ + b) + intercept).

    A point is γ, the intercept of all classes but the last, as only differences matter to softmax,
    and the logarithm of the scale; the last two where they are free.

    Attributes:
        view: the model on the graph.
        model: its model.
        targets: [N, C].
        has_intercept: whether an intercept is fitted.
        every: one node in so many counts.
        sample: hop logits and targets of the nodes that count here, if these are not all.
    """

    view: View
    model: LinearBackbone
    targets: Probs
    has_intercept: bool
    every: int = 1
    sample: tuple[Tensor, Tensor] | None = None

    def sampled(self, every: int) -> "_Regression":
        """The same on one node in so many, which are read once."""
        logits, wanted = [], []
        for rows, hop_logits in self.view.hops.hop_logits(self.model.head):
            some = slice(-rows.start % every, None, every)
            logits.append(hop_logits[..., some])
            wanted.append(self.targets[rows][some].T.double())
        return self._replace(every=every, sample=(torch.cat(logits, -1), torch.cat(wanted, -1)))

    def nodes(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Hop logits [K+1, C−1, n] and targets [C, n] of some nodes at a time, in float64."""
        if self.sample is not None:
            yield self.sample
            return
        for rows, hop_logits in self.view.hops.hop_logits(self.model.head):
            yield hop_logits, self.targets[rows].T.double()

    @property
    def has_scale(self) -> bool:
        """Whether a scale is fitted: where γ cannot scale the mixture by itself."""
        return not self.model.gamma_is_hop_weights

    @property
    def free(self) -> int:
        """Numbers of the intercept."""
        return self.targets.shape[1] - 1 if self.has_intercept else 0

    def start(self) -> Tensor:
        """The model's γ, no intercept and scale 1."""
        gamma = self.view.gamma.double().flatten()
        return torch.cat([gamma, gamma.new_zeros(self.free + self.has_scale)])

    def split(self, point: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """γ, the intercept [C] and the scale."""
        like = self.view.gamma
        gamma, added, scale = torch.split(point, [like.numel(), self.free, int(self.has_scale)])
        missing = added.new_zeros(self.targets.shape[1] - self.free)
        return gamma.view_as(like).to(like), torch.cat([added, missing]), scale.sum().exp()

    def sums(self, point: Tensor) -> _Sums:
        """Mean cross entropy, its gradient and its second derivative."""
        head = self.model.head
        gamma, added, scale = self.split(point)
        hop_weights = self.model.hop_weights(gamma).double()
        slopes = scale * _hop_weight_slopes(self.model, gamma) if self.has_scale else None
        offset = torch.zeros_like(added) if head.bias is None else head.bias.detach().double()
        offset, added = (offset - offset[-1])[:-1, None], (added - added[-1])[:-1, None]
        value, slope = point.new_zeros(()), torch.zeros_like(point)
        curvature = torch.outer(slope, slope)
        # All relative to the last class, of which logits and their derivatives are zero.
        for hop_logits, wanted in self.nodes():
            mixed = torch.tensordot(hop_weights, hop_logits, 1).add_(offset).mul_(scale)
            logits = mixed + added
            logs = torch.cat([logits, torch.zeros_like(logits[:1])]).log_softmax(0)
            value -= (wanted * logs).sum()
            probs = logs[:-1].exp()
            each = self._inputs(hop_logits, mixed, slopes)
            slope += each.flatten(1) @ (probs - wanted[:-1]).flatten()
            curvature += _spread(each, probs)
        sums = torch.cat([value[None], slope, curvature.flatten()]).cpu().numpy()
        count = -(-self.view.hops.num_nodes // self.every)
        total, of_slope, of_curvature = np.split(sums / count, [1, 1 + len(point)])
        return _Sums(float(total[0]), of_slope, of_curvature.reshape(len(point), -1))

    def _inputs(self, hop_logits: Tensor, mixed: Tensor, slopes: Tensor | None) -> Tensor:
        """Derivatives of the logits in the numbers of a point, [P, C−1, n].

        From the logits of each hop [K+1, C−1, n], those without the intercept [C−1, n], and the
        slopes of the scaled hop weights in γ; None where γ are the hop weights.
        """
        of_gamma = hop_logits if slopes is None else torch.tensordot(slopes.T, hop_logits, 1)
        if not (self.free or self.has_scale):
            return of_gamma
        intercept = torch.eye(self.free, len(mixed)).to(mixed)[:, :, None]
        scaled = [mixed[None]] * self.has_scale
        return torch.cat([of_gamma, intercept.expand(-1, -1, mixed.shape[1]), *scaled])


def _spread(each: Tensor, probs: Tensor) -> Tensor:
    """Σ over nodes of the covariance of inputs [P, C−1, n] under probabilities [C−1, n]: [P, P].

    The inputs of the last class are zero.
    """
    flat = each.flatten(1)
    if len(probs) == 1:
        return (each * (probs * (1 - probs))).flatten(1) @ flat.T
    weighted = each * probs
    mean = weighted.sum(1)
    return weighted.flatten(1) @ flat.T - mean @ mean.T


def _hop_weight_slopes(model: LinearBackbone, gamma: Tensor) -> Tensor:
    """dc/dγ, [K+1, size of γ]."""
    with torch.enable_grad():
        slopes: Tensor = torch.autograd.functional.jacobian(  # type: ignore[no-untyped-call]
            model.hop_weights, gamma
        )
    return slopes.reshape(slopes.shape[0], -1).double()
