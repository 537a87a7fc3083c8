"""How hops become a representation: one file per architecture."""

from matcha_gnn.backbones.appnp import APPNP
from matcha_gnn.backbones.base import Backbone
from matcha_gnn.backbones.foreign import AddedHops, Found, Wrapped, add_hops, find_gamma, wrap
from matcha_gnn.backbones.gcnii import GCNII
from matcha_gnn.backbones.gprgnn import GPRGNN
from matcha_gnn.backbones.jknet import JKNet

BACKBONES: dict[str, type[Backbone]] = {
    "gprgnn": GPRGNN,
    "appnp": APPNP,
    "jknet": JKNet,
    "gcnii": GCNII,
}

__all__ = [
    "APPNP",
    "BACKBONES",
    "GCNII",
    "GPRGNN",
    "AddedHops",
    "Backbone",
    "Found",
    "JKNet",
    "Wrapped",
    "add_hops",
    "find_gamma",
    "wrap",
]
