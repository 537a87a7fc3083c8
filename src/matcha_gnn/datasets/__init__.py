"""Graphs to train on and adapt to."""

from matcha_gnn.datasets.csbm import csbm
from matcha_gnn.datasets.domains import Domains
from matcha_gnn.datasets.shifts import shifted
from matcha_gnn.datasets.syn_cora import syn_cora

__all__ = ["Domains", "csbm", "shifted", "syn_cora"]
