"""Graphs to train on and adapt to: functions that return a PyG `Data`."""

from matcha_gnn.datasets.citation import coauthor_cs as coauthor_cs
from matcha_gnn.datasets.citation import cora as cora
from matcha_gnn.datasets.csbm import csbm as csbm
