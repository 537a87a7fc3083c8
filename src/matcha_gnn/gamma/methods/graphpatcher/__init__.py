"""GraphPatcher: generated neighbours for nodes of low degree."""

from matcha_gnn.gamma.methods.graphpatcher.method import GraphPatcher

__all__ = ["GraphPatcher"]
