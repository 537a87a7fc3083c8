"""How a graph becomes a representation: one file per architecture."""

from matcha_gnn.errors import InvalidArgumentError
from matcha_gnn.gamma.kernels.edge_weights import hop as hop
from matcha_gnn.gamma.models.appnp import APPNP as APPNP
from matcha_gnn.gamma.models.base import Backbone as Backbone
from matcha_gnn.gamma.models.base import TrainableBackbone as TrainableBackbone
from matcha_gnn.gamma.models.gcnii import GCNII as GCNII
from matcha_gnn.gamma.models.gprgnn import GPRGNN as GPRGNN
from matcha_gnn.gamma.models.jknet import JKNet as JKNet
from matcha_gnn.gamma.models.linear import FilterBackbone as FilterBackbone
from matcha_gnn.gamma.models.linear import LinearBackbone as LinearBackbone
from matcha_gnn.registry import registered, resolve_installed

BACKBONES: dict[str, type[TrainableBackbone]] = registered(vars(), TrainableBackbone)
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
