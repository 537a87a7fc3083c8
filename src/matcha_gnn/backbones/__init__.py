"""How a graph becomes a representation: one file per architecture."""

from matcha_gnn.backbones.appnp import APPNP
from matcha_gnn.backbones.base import Backbone, MovableBackbone, TrainableBackbone
from matcha_gnn.backbones.foreign import AddedHops, Found, Wrapped, add_hops, find_gamma, wrap
from matcha_gnn.backbones.gcnii import GCNII
from matcha_gnn.backbones.gprgnn import GPRGNN
from matcha_gnn.backbones.jknet import JKNet
from matcha_gnn.backbones.linear import (
    FilterBackbone,
    LayeredBackbone,
    LinearBackbone,
    NormedFilterBackbone,
    hop_weights_of,
)
from matcha_gnn.errors import InvalidArgumentError
from matcha_gnn.registry import resolve_installed

BACKBONES: dict[str, type[TrainableBackbone]] = {
    "gprgnn": GPRGNN,
    "appnp": APPNP,
    "jknet": JKNet,
    "gcnii": GCNII,
}
GROUP = "matcha_gnn.backbones"
"""Entry points by which other packages offer backbones."""


def resolve_backbone(argument: str, name: str) -> type[TrainableBackbone]:
    """The class of a built-in architecture, or of one that an installed package offers.

    Example:
        >>> resolve_backbone("--backbone", "jknet").__name__
        'JKNet'
    """
    found: object = resolve_installed(argument, name, BACKBONES, GROUP)
    if not (isinstance(found, type) and issubclass(found, TrainableBackbone)):
        raise InvalidArgumentError(argument, f"{name!r} ({found!r})", "a TrainableBackbone class")
    return found


__all__ = [
    "APPNP",
    "BACKBONES",
    "GCNII",
    "GPRGNN",
    "GROUP",
    "AddedHops",
    "Backbone",
    "FilterBackbone",
    "Found",
    "JKNet",
    "LayeredBackbone",
    "LinearBackbone",
    "MovableBackbone",
    "NormedFilterBackbone",
    "TrainableBackbone",
    "Wrapped",
    "add_hops",
    "find_gamma",
    "hop_weights_of",
    "resolve_backbone",
    "wrap",
]
