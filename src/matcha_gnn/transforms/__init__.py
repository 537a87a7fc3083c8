"""Controlled shifts of a graph: homophily, degree, class shares, features; and an attack."""

from matcha_gnn.transforms.attack import attacked
from matcha_gnn.transforms.shifts import shifted

__all__ = ["attacked", "shifted"]
