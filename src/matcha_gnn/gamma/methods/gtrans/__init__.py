"""GTrans: test-time transformation of a graph."""

from matcha_gnn.gamma.methods.gtrans.method import GTrans

__all__ = ["GTrans"]
