"""GTrans: test-time transformation of a graph."""

from matcha_gnn.methods.gtrans.method import GTrans

__all__ = ["GTrans"]
