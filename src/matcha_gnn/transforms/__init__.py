"""Controlled shifts of a graph: homophily, degree, class shares, features."""

from matcha_gnn.transforms.shifts import shifted

__all__ = ["shifted"]
