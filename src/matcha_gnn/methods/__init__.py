"""Base test-time adaptation methods: one file per paper."""

from matcha_gnn.methods.base import (
    Artefact,
    BaseMethod,
    Prediction,
    Prepared,
    State,
    Touches,
    View,
)
from matcha_gnn.methods.erm import ERM
from matcha_gnn.methods.soga import SOGA
from matcha_gnn.methods.tent import Tent

METHODS: dict[str, type[BaseMethod]] = {method.name: method for method in (ERM, Tent, SOGA)}

__all__ = [
    "ERM",
    "METHODS",
    "SOGA",
    "Artefact",
    "BaseMethod",
    "Prediction",
    "Prepared",
    "State",
    "Tent",
    "Touches",
    "View",
]
