"""Checks for methods, backbones and losses, built-in or of other packages.

Each check raises AssertionError with a message that says what was expected. No test framework is
needed: call them from a script or from any test runner.

Example:
    >>> from matcha_gnn.gamma.methods import ERM
    >>> check_method(ERM())
"""

from matcha_gnn.gamma.testing.backbones import check_backbone
from matcha_gnn.gamma.testing.graphs import awkward_graphs, tiny_graph, trained_model
from matcha_gnn.gamma.testing.losses import check_loss
from matcha_gnn.gamma.testing.methods import check_method
from matcha_gnn.gamma.testing.strategies import check_strategy

__all__ = [
    "awkward_graphs",
    "check_backbone",
    "check_loss",
    "check_method",
    "check_strategy",
    "tiny_graph",
    "trained_model",
]
