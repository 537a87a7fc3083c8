"""A trained network that somebody else wrote, as a backbone."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from typing_extensions import override

from matcha_gnn.errors import IncompatibleError, InvalidArgumentError, require_kind
from matcha_gnn.gamma.models.base import Backbone
from matcha_gnn.gamma.networks.heads import (
    Head,
    OutputHead,
    Run,
    check_head_decides,
    find_head,
    representation_of,
    watch_head,
)
from matcha_gnn.gamma.networks.sites import find_gamma, find_sites, require_module, require_path
from matcha_gnn.graphs.memory import Graph
from matcha_gnn.network.modules import Patch, patched
from matcha_gnn.network.network import ModuleNetwork
from matcha_gnn.typing import Probs, Repr

logger = logging.getLogger(__name__)


class Foreign(ModuleNetwork, Backbone):
    """A private copy of a module with γ, run on checked graphs.

    Its head may be any layer of one node alone; methods that need a linear one say so.

    Attributes:
        head_path: where its head is; None for its output.
    """

    in_channels = 0

    def __init__(self, net: nn.Module, head: str | None) -> None:
        Backbone.__init__(self)
        require_module(net)
        self.hold(net)
        place = find_head(self.net, head)
        self.head_path, self.head = place.path, cast(nn.Linear, place.layer)
        self._head_checked = False

    @property
    @override
    def like(self) -> Tensor:
        return self.gamma

    def expect(self, classes: int | None) -> None:
        """Tell logits from other outputs; an output that is Z has as many columns."""
        self.classes = classes
        if classes and isinstance(self.head, OutputHead) and not self.head.out_features:
            self.head.widen(classes, self.gamma.detach())

    @override
    def logits(self, graph: Graph) -> Tensor:
        return Backbone.logits(self, graph)

    @override
    def probs(self, graph: Graph) -> Probs:
        return Backbone.probs(self, graph)

    def seen(self, graph: Graph, patches: Callable[[], Iterable[Patch]] = tuple) -> Repr:
        """What enters the head on a graph, with some patches in place, [N, D]."""
        return self.rows(graph, lambda part, seeds: self._seen(part, patches, seeds))

    def _seen(
        self, graph: Graph, patches: Callable[[], Iterable[Patch]], seeds: int | None
    ) -> Repr:
        entered: list[Tensor] = []
        head = Head(self.head_path, self.head)
        # The watch comes first: a patch that mixes what enters the same layer goes around it.
        with patched(watch_head(self.net, head, entered)), patched(patches()):
            run = Run(self.answer(graph, entered.clear), entered)
        z = representation_of(self.net, head, run, graph, seeds, self.classes)
        if isinstance(self.head, OutputHead) and self.head.out_features != z.shape[1]:
            self.head.widen(z.shape[1], z.detach())
        if not self._head_checked and seeds is None:
            with torch.no_grad():
                check_head_decides(self.net, head, run, z)
            self._head_checked = True
        return z


class Wrapped(Foreign):
    """A network whose own hop weights are γ; see `wrap`.

    Attributes:
        sites: where they are.
    """

    def __init__(self, net: nn.Module, gamma: Sequence[str], head: str | None) -> None:
        super().__init__(net, head)
        self.sites = find_sites(self.net, gamma)
        self.gamma = nn.Parameter(torch.cat([site.start for site in self.sites]))

    def representation(self, graph: Graph, constants: Any = None) -> Repr:
        """Z with gradients to γ and to the network's parameters, [N, D]."""
        z = self.seen(graph, self._patches)
        if torch.is_grad_enabled() and self.gamma.requires_grad and not z.requires_grad:
            paths = ", ".join(site.path for site in self.sites)
            place = "the output" if self.head_path is None else f"the head {self.head_path!r}"
            raise IncompatibleError(f"γ ({paths}) does not reach {place} of {self.name}")
        return z

    def _patches(self) -> Iterator[Patch]:
        parts = torch.split(self.gamma, [len(site.start) for site in self.sites])
        for site, values in zip(self.sites, parts, strict=True):
            yield from site.patches(self.net, values)


def wrap(
    net: nn.Module, gamma: str | Sequence[str] | None = None, head: str | None = None
) -> Wrapped:
    """Make a trained network adaptable: say which numbers mix its hops, and which layer classifies.

    The network is copied; the caller's stays as it is. Layers that keep the first graph they see
    (`cached=True`) forget it in the copy.

    Args:
        net: any module that takes `x`, `edge_index` and further fields of a `Data` by name
            (`edge_weight`, `edge_attr`, `pos`, …), or a `Data`.
        gamma: paths of parameters or plain floats ("prop.alpha", "prop.temp"), with * for any
            part ("convs.*.alpha"); a layer of PyG whose hops can be reweighted (SGConv, TAGConv,
            MixHopConv, JumpingKnowledge) is named by its own path ("conv1"). By default what
            `find_gamma` finds, head included.
        head: path of the classifying layer; Z is what enters it. None: Z is the output, less its
            mean over classes, as for networks that propagate last.

    Returns:
        A model for `adapt`; each round runs the network once, by autograd.

    Raises:
        InvalidArgumentError: no such path; the message names near ones.
        IncompatibleError: `find_gamma` found nothing.

    Example:
        >>> from torch_geometric.nn import APPNP, Linear
        >>> from torch_geometric.nn import Sequential as Net
        >>> net = Net("x, edge_index", [
        ...     (Linear(8, 4), "x -> x"), (APPNP(K=3, alpha=0.1), "x, edge_index -> x"),
        ...     (Linear(4, 2), "x -> x")])
        >>> model = wrap(net)
        >>> [site.path for site in model.sites], model.head_path, model.gamma.tolist()
        (['module_1.alpha'], 'module_2', [0.10000000149011612])
    """
    require_path("head", head)
    if gamma is None:
        found = find_gamma(net)
        if not found.gamma:
            raise IncompatibleError(f"gamma: {found}")
        return Wrapped(net, found.gamma, found.head if head is None else head)
    paths = [gamma] if isinstance(gamma, str) else gamma
    require_kind("gamma", paths, Sequence, 'paths such as "prop.alpha"')
    if not paths:
        raise InvalidArgumentError("gamma", "no path", 'at least one, such as "prop.alpha"')
    for path in paths:
        require_path("gamma", path)
    return Wrapped(net, list(paths), head)
