"""A plain network as it is, for `adapt` and its like: the one form that they give it."""

import copy
import logging
from collections.abc import Iterator
from typing import cast

from torch import nn

from matcha_gnn.errors import (
    IncompatibleError,
    InvalidArgumentError,
    require_kind,
)
from matcha_gnn.gamma.models.base import Backbone
from matcha_gnn.gamma.networks.added import LinearAddedHops
from matcha_gnn.gamma.networks.sites import find_gamma
from matcha_gnn.gamma.networks.wrap import Foreign, Wrapped
from matcha_gnn.graphs.memory import Graph, GraphLike, unlabelled
from matcha_gnn.network.batches import Batches, Loader

logger = logging.getLogger(__name__)

HOPS = 2
"""Hops that are put on the output."""
OWN_HOPS = "own hop weights"


class Network(LinearAddedHops):
    """A network with neutral hop weights on its output, and another form where it has its own."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__(net, None, HOPS)

    def forms(self, graph: Graph) -> Iterator[tuple[str, Backbone]]:
        """The network with γ at hop weights of its own, where `find_gamma` knows some."""
        found = find_gamma(self.net)
        if not found.gamma:
            return
        form = Wrapped(self.net, found.gamma, None).frozen()
        form.gamma.requires_grad_(True)
        form.source, form.batches, form.classes = self.source, self.batches, self.classes
        try:
            form.representation(graph)
        except (IncompatibleError, InvalidArgumentError) as reason:
            logger.info("hop weights of %s are not tried: %s", self.name, reason)
            return
        yield OWN_HOPS, form


def as_backbone(model: object, graph: object, loader: Loader | None = None) -> Backbone:
    """A backbone as it is; another network as a `Network`, which has a copy of it.

    Args:
        model: a backbone, or any network that takes fields of a `Data` by name, or a `Data`.
        graph: what it will run on.
        loader: through which the network runs; see `Batches`.

    Raises:
        InvalidArgumentError: no network.
    """
    allowed = "a trained torch.nn.Module, such as a PyG network or mg.GPRGNN(...)"
    require_kind("model", model, nn.Module, allowed)
    if isinstance(model, Backbone):
        running: Backbone = model
    else:
        running = Network(cast(nn.Module, model))
    return running if loader is None else _with_loader(running, graph, loader)


def _with_loader(model: Backbone, graph: object, loader: Loader) -> Backbone:
    if not isinstance(model, Foreign):
        raise InvalidArgumentError("loader", f"one for {model.name}", "one for a PyG network")
    view: GraphLike = graph  # type: ignore[assignment]
    running = copy.deepcopy(model)
    running.batches = Batches(loader, unlabelled(view))
    return running
