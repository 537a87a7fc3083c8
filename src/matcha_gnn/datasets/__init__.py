"""Graphs to train on and adapt to: functions that return a PyG `Data`."""

from matcha_gnn.datasets.csbm import csbm as csbm
