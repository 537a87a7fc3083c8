"""How hops become a representation: one file per architecture."""

from matcha_gnn.backbones.base import Backbone
from matcha_gnn.backbones.gprgnn import GPRGNN

BACKBONES: dict[str, type[Backbone]] = {"gprgnn": GPRGNN}

__all__ = ["BACKBONES", "GPRGNN", "Backbone"]
