"""Graphs and hops that stay on disk because they do not fit memory."""

from matcha_gnn.graphs.stored.store import GraphStore
from matcha_gnn.graphs.stored.target import StoredGraph

__all__ = ["GraphStore", "StoredGraph"]
