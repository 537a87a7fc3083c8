"""Graphs to train on and adapt to."""

from matcha_gnn.datasets.csbm import csbm

__all__ = ["csbm"]
