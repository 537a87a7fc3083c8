"""Base test-time adaptation methods: one file per paper."""

from matcha_gnn.methods.adanpc import AdaNPC
from matcha_gnn.methods.base import (
    Arrays,
    BaseMethod,
    Modifies,
    Prediction,
    Prepared,
    State,
    View,
)
from matcha_gnn.methods.erm import ERM
from matcha_gnn.methods.graphpatcher.method import GraphPatcher
from matcha_gnn.methods.gtrans.method import GTrans
from matcha_gnn.methods.lame import LAME
from matcha_gnn.methods.soga import SOGA
from matcha_gnn.methods.t3a import T3A
from matcha_gnn.methods.tent import Tent

METHODS: dict[str, type[BaseMethod]] = {
    method.name: method for method in (ERM, T3A, Tent, AdaNPC, GTrans, SOGA, GraphPatcher, LAME)
}

__all__ = [
    "ERM",
    "LAME",
    "METHODS",
    "SOGA",
    "T3A",
    "AdaNPC",
    "Arrays",
    "BaseMethod",
    "GTrans",
    "GraphPatcher",
    "Prediction",
    "Prepared",
    "State",
    "Tent",
    "Modifies",
    "View",
]
