"""Graphs that a model can be adapted to."""
