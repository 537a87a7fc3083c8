"""Running models of any form with other parameters, statistics or hops."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias, TypeVar, cast

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.modules.batchnorm import _BatchNorm

from matcha_gnn.errors import IncompatibleError
from matcha_gnn.gamma.hops import Hops
from matcha_gnn.gamma.methods.base import View
from matcha_gnn.gamma.models import Backbone, LinearBackbone
from matcha_gnn.typing import HopStack

Values: TypeAlias = dict[str, Tensor]
"""Tensors that replace those of a model, by their name in it."""
MakeHops: TypeAlias = Callable[[Backbone], HopStack]
"""From a model to its hops, [N, K+1, D]."""
T = TypeVar("T")


class ModifiedHops:
    """A model's hops on a modified graph; computed again for each γ where they depend on it.

    Args:
        view: the model.
        make: from the model to its hops there, [N, K+1, D].
        values: tensors that replace the model's.
    """

    def __init__(self, view: View, make: MakeHops, values: Values | None = None) -> None:
        self._make, self._values = make, values or {}
        self._kept = self._hops(view) if isinstance(view.model, LinearBackbone) else None

    def hops_at(self, view: View) -> Hops:
        """The hops at the view's γ."""
        return self._hops(view) if self._kept is None else self._kept

    @torch.no_grad()
    def _hops(self, view: View) -> Hops:
        return Hops(run_with(view.model, self._values | {"gamma": view.gamma}, self._make))


def run_with(model: Backbone, values: Values, run: Callable[[Backbone], T]) -> T:
    """Call a function of the model with other values of some parameters or buffers."""
    named = {f"model.{name}": value for name, value in values.items()}
    return cast(T, functional_call(_Runner(model), named, (run,)))


class _Runner(nn.Module):
    """`functional_call` replaces parameters during the forward pass of a module."""

    def __init__(self, model: Backbone) -> None:
        super().__init__()
        self.model = model

    def forward(self, run: Callable[[Backbone], T]) -> T:
        return run(self.model)


def norms_of(model: nn.Module) -> dict[str, _BatchNorm]:
    """The batch norms inside a model, by name."""
    return {name: m for name, m in model.named_modules() if isinstance(m, _BatchNorm)}


def running_statistics(model: nn.Module) -> Values:
    """Copies of the buffers of the batch norms inside a model, by name."""
    return {
        f"{path}.{name}": buffer.clone()
        for path, norm in norms_of(model).items()
        for name, buffer in norm.named_buffers()
    }


def drifted_statistics(view: View, passes: int) -> Values:
    """Running statistics after passes over the view's graph with batch norms in training mode.

    Dropout stays off. The model's statistics do not change.
    """
    require_two_nodes(view, "drift")
    statistics = running_statistics(view.model)
    values = statistics | {"gamma": view.gamma}
    with target_statistics(view.model, tracked=True):
        for _ in range(passes):
            run_with(view.model, values, lambda model: model.representation(view.graph))
    return statistics


def require_two_nodes(view: View, argument: str) -> None:
    """Raise IncompatibleError for a graph with one node, which has no variance."""
    if view.graph.num_nodes < 2:
        raise IncompatibleError(f"{argument}: statistics of the target need two nodes or more")


@contextmanager
def target_statistics(model: nn.Module, *, tracked: bool = False) -> Iterator[None]:
    """Let every batch norm use the mean and variance of its input.

    Args:
        model: its norms are restored afterwards.
        tracked: whether each pass also moves the running statistics, as training does.
    """
    norms = norms_of(model).values()
    before = [(norm.training, norm.track_running_stats) for norm in norms]
    for norm in norms:
        norm.training, norm.track_running_stats = True, tracked and norm.track_running_stats
    try:
        yield
    finally:
        for norm, (training, tracking) in zip(norms, before, strict=True):
            norm.training, norm.track_running_stats = training, tracking
