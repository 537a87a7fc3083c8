"""Graphs to train on and adapt to: functions that return a PyG `Data`, each known by its name."""

from matcha_gnn.datasets.catalogue import make_graph as make_graph
from matcha_gnn.datasets.citation import coauthor_cs as coauthor_cs
from matcha_gnn.datasets.citation import cora as cora
from matcha_gnn.datasets.csbm import csbm as csbm
