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

METHODS: dict[str, type[BaseMethod]] = {method.name: method for method in (ERM,)}

__all__ = [
    "ERM",
    "METHODS",
    "Artefact",
    "BaseMethod",
    "Prediction",
    "Prepared",
    "State",
    "Touches",
    "View",
]
