"""Gradient descent on a loss of the logits in a model's parameters, shared by Tent and SOGA.

Features are read once for each set of weights, and only the columns that the softmax depends on are
propagated.
"""

import abc
import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple, TypeAlias, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from typing_extensions import override

from matcha_gnn import kernels
from matcha_gnn.errors import require_number, require_whole
from matcha_gnn.gamma.hops import Hops
from matcha_gnn.gamma.methods.base import BaseMethod, Prediction, View
from matcha_gnn.gamma.methods.settings import require_choice
from matcha_gnn.gamma.methods.whole import Values, require_two_nodes, run_with, target_statistics
from matcha_gnn.gamma.models import Backbone
from matcha_gnn.kernels import Adjacency, propagate
from matcha_gnn.typing import HopStack, Repr

Logits: TypeAlias = Tensor
"""Logits less that of the last class, which determine the softmax, [N, C−1]."""
Slope: TypeAlias = Callable[[Tensor], Tensor]
"""From log probabilities, class-major [C, N], to a loss's derivative in the logits, [C, N]."""


@dataclass(frozen=True)
class DescentMethod(BaseMethod):
    """A base method that takes gradient steps in each round: how many, their size, and by what."""

    needs_linear_head = True

    steps: int = 1
    lr: float = 1.0
    optimizer: str = "sgd"

    def __post_init__(self) -> None:
        require_whole("steps", self.steps, least=0)
        require_number("lr", self.lr, above=0)
        require_choice("optimizer", self.optimizer, ("sgd", "adam"))


@dataclass(frozen=True, eq=False)
class Point:
    """Values of the trained tensors, and what is computed from them on the target.

    Attributes:
        values: the trained tensors, leaves of the autograd graph.
        narrow: the narrowest tensor that determines the logits at any γ, with autograd history.
        weight: the head's rows less its last, [C−1, D].
        bias: the same of its bias, [C−1].
        h0: H_0, [N, D], where the tuner computes it.
        kept: hops of `narrow`, [N, ·, K+1], where many rounds start at this point.
    """

    values: Values
    narrow: Tensor
    weight: Tensor
    bias: Tensor
    h0: Repr | None = None
    kept: Tensor | None = None


class Tuner(abc.ABC):
    """Logits on the view's graph as a function of some of the model's tensors."""

    def __init__(self, view: View) -> None:
        self.head, self.num_hops = view.model.head, view.model.num_hops
        self.adjacency = view.graph.adjacency.to(self.head.weight.dtype)

    @abc.abstractmethod
    def at(self, values: Values) -> Point:
        """The point of these values on the target; called with gradients enabled."""

    @abc.abstractmethod
    def mixer(self, view: View) -> Callable[[Point], Logits]:
        """Logits at the γ of one round, with history."""

    @abc.abstractmethod
    def stack(self, point: Point) -> HopStack:
        """H_0 … H_K of the tuned model, [N, K+1, D]."""

    def start(self, source: Values) -> "Tuned":
        """The source's values, as a state that any number of rounds can start from."""
        with torch.enable_grad():
            return Tuned(self, self.at({name: _leaf(value) for name, value in source.items()}))

    def relative_head(self, values: Values) -> tuple[Tensor, Tensor]:
        """Weight [C−1, D] and bias [C−1] of the head, less those of the last class."""
        weight = values.get("head.weight", self.head.weight)
        bias = values.get("head.bias", self.head.bias)
        offset = weight.new_zeros(len(weight) - 1) if bias is None else bias[:-1] - bias[-1]
        return weight[:-1] - weight[-1], offset


class FilterTuner(Tuner):
    """For any encoder: K sparse products forward and K backward, on the narrower side of the head.

    The head acts on rows and P on columns, so they commute: with C − 1 < D the columns of H_0 Wᵀ
    are propagated instead of those of H_0. `encode` gives H_0 from the trained values.
    """

    def __init__(self, view: View, encode: Callable[[Values], Repr]) -> None:
        super().__init__(view)
        self.encode = encode
        self.transpose = self.adjacency.transposed

    def at(self, values: Values) -> Point:
        """Encode, and apply the head first where that is narrower."""
        h0, (weight, bias) = self.encode(values), self.relative_head(values)
        narrow = h0 @ weight.T if len(weight) < h0.shape[1] else h0
        return Point(values, narrow, weight, bias, h0)

    def start(self, source: Values) -> "Tuned":
        """Keep the hops of the first point: its logits are a mix of them in every round."""
        tuned = super().start(source)
        stack = propagate(self.adjacency, tuned.point.narrow.detach(), self.num_hops)
        kept = stack.transpose(1, 2).contiguous()
        return tuned._replace(point=replace(tuned.point, kept=kept))

    def mixer(self, view: View) -> Callable[[Point], Logits]:
        """Filter the narrow tensor, then apply the head if it was not applied yet."""

        def logits(point: Point) -> Logits:
            mixed: Tensor = _Filter.apply(  # type: ignore[no-untyped-call]
                point.narrow, self, view, point.kept
            )
            return (mixed @ point.weight.T if point.narrow is point.h0 else mixed) + point.bias

        return logits

    @override
    def stack(self, point: Point) -> HopStack:
        return propagate(self.adjacency, cast(Tensor, point.h0).detach(), self.num_hops)


class WholeTuner(Tuner):
    """Runs the whole model: for models that are no filter, and where γ is trained too.

    With `on_target` batch norms go by the statistics of the target.
    """

    def __init__(self, view: View, *, on_target: bool) -> None:
        super().__init__(view)
        self.model, self.graph, self.on_target = view.model, view.graph, on_target
        if on_target:
            require_two_nodes(view, "statistics")

    @override
    def at(self, values: Values) -> Point:
        weight, bias = self.relative_head(values)
        return Point(values, weight, weight, bias)

    def mixer(self, view: View) -> Callable[[Point], Logits]:
        """Run the model at the γ of one round, unless γ is among what is trained."""

        def logits(point: Point) -> Logits:
            z = self._run({"gamma": view.gamma} | point.values, self._representation)
            return z @ point.weight.T + point.bias

        return logits

    @torch.no_grad()
    def stack(self, point: Point) -> HopStack:
        """The hops of the tuned model, for models that mix them linearly."""
        # Not `model.hops`: its evaluation mode would take the target's statistics away.
        return self._run(point.values, lambda model: model.stack(self.graph))

    def _representation(self, model: Backbone) -> Repr:
        return model.representation(self.graph)

    def _run(self, values: Values, run: Callable[[Backbone], Tensor]) -> Tensor:
        with target_statistics(self.model) if self.on_target else nullcontext():
            return run_with(self.model, values, run)


class _Filter(torch.autograd.Function):
    """Σ_k c_k P^k h by Horner's rule, forward and backward: K products each, no stored hops."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, tuner: FilterTuner, view: View, kept: Tensor | None) -> Tensor:
        ctx.transpose, ctx.hop_weights = tuner.transpose, view.hop_weights_array.tolist()
        return (
            horner(tuner.adjacency, h, ctx.hop_weights) if kept is None else kept @ view.hop_weights
        )

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        return horner(ctx.transpose, gradients[0], ctx.hop_weights), None, None, None


def horner(adjacency: Adjacency, h: Tensor, hop_weights: Sequence[float]) -> Tensor:
    """Σ_k c_k P^k h without keeping the hops, for h [N, ·]."""
    # A product with a vector takes half the time of one with a single column.
    columns = h.squeeze(1)
    mixed = columns * hop_weights[-1]
    for weight in reversed(hop_weights[:-1]):
        mixed = (adjacency @ mixed).add_(columns, alpha=weight)
    return mixed.view_as(h)


class Moments(NamedTuple):
    """Adam's running means of gradients and of their squares, after some steps."""

    steps: int
    mean: list[Tensor]
    square: list[Tensor]


class Tuned(NamedTuple):
    """A method's state: the current point, and Adam's moments."""

    tuner: Tuner
    point: Point
    moments: Moments | None = None

    def also(self, values: Values) -> "Tuned":
        """The same with more tensors to train, or with other values for some of them."""
        leaves = {name: _leaf(value) for name, value in values.items()}
        with torch.enable_grad():
            return self._replace(point=self.tuner.at(self.point.values | leaves))


def descend(
    tuned: Tuned, view: View, slope: Slope, descent: DescentMethod
) -> tuple[Prediction, Tuned]:
    """Take steps down a loss of the logits, and predict after the last one."""
    tuner, point, moments = tuned
    logits_at = tuner.mixer(view)
    with torch.enable_grad():
        logits = logits_at(point)
        for _ in range(descent.steps):
            upward = slope(_class_major(logits).log_softmax(0))[:-1].T
            trained = list(point.values.values())
            # Later rounds may start at this point again, so the graph is retained.
            slopes = torch.autograd.grad(logits, trained, upward, True, materialize_grads=True)
            if descent.optimizer == "adam":
                slopes, moments = adam(slopes, moments)
            moved = zip(point.values.items(), slopes, strict=True)
            point = tuner.at({n: _leaf(v.detach().sub(g, alpha=descent.lr)) for (n, v), g in moved})
            logits = logits_at(point)
    probs = kernels.turned(_class_major(logits).softmax(0))
    hops = LazyHops(partial(tuner.stack, point))
    return Prediction(probs, hops=hops), Tuned(tuner, point, moments)


def adam(slopes: Sequence[Tensor], moments: Moments | None) -> tuple[tuple[Tensor, ...], Moments]:
    """Adam's direction for each gradient, β = (0.9, 0.999), ε = 1e-8 (Kingma and Ba, ICLR 2015).

    It returns new tensors; torch's optimizers work in place.
    """
    zeros = [torch.zeros_like(g) for g in slopes]
    steps, old_mean, old_square = moments or Moments(0, zeros, zeros)
    mean = [torch.lerp(m, g, 0.1) for m, g in zip(old_mean, slopes, strict=True)]
    square = [torch.lerp(q, g * g, 0.001) for q, g in zip(old_square, slopes, strict=True)]
    share, root = 1 - 0.9 ** (steps + 1), math.sqrt(1 - 0.999 ** (steps + 1))
    pairs = zip(mean, square, strict=True)
    ratio = tuple(m / share / (q.sqrt() / root + 1e-8) for m, q in pairs)
    return ratio, Moments(steps + 1, mean, square)


class LazyHops(Hops):
    """Hops whose stack is computed when it is first read."""

    def __init__(self, make: Callable[[], HopStack]) -> None:
        self.__dict__.update(key=None, _kept={}, _logits=[], _make=make)

    @cached_property
    def stack(self) -> HopStack:
        """[N, K+1, D]."""
        with torch.no_grad():
            return cast(HopStack, self.__dict__["_make"]())


def _leaf(value: Tensor) -> Tensor:
    return value.detach().requires_grad_()


def _class_major(logits: Logits) -> Tensor:
    """The logits of all classes, [C, N]: torch's softmax is fastest across few long rows."""
    rows = logits.detach().T
    return torch.cat([rows, rows.new_zeros(1, rows.shape[1])])
