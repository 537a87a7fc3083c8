"""How hops become a representation: one file per architecture."""

from matcha_gnn.backbones.appnp import APPNP
from matcha_gnn.backbones.base import Backbone
from matcha_gnn.backbones.gprgnn import GPRGNN
from matcha_gnn.backbones.jknet import JKNet

BACKBONES: dict[str, type[Backbone]] = {"gprgnn": GPRGNN, "appnp": APPNP, "jknet": JKNet}

__all__ = ["APPNP", "BACKBONES", "GPRGNN", "Backbone", "JKNet"]
