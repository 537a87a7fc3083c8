"""Graphs that live in tables: the default's program on DuckDB, or on Spark, for any classifier."""

from matcha_gnn.tables.api import adapt, estimate
from matcha_gnn.tables.labelled import summarise

__all__ = ["adapt", "estimate", "summarise"]
