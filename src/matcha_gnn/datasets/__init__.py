"""Graphs to train on and adapt to."""

from matcha_gnn.datasets.catalogue import make_graph
from matcha_gnn.datasets.citation import coauthor_cs, cora
from matcha_gnn.datasets.csbm import csbm
from matcha_gnn.datasets.stored import store_csbm

__all__ = ["coauthor_cs", "cora", "csbm", "make_graph", "store_csbm"]
