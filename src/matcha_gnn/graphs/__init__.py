"""Graphs that a model can be adapted to: in memory, stored in a folder, or sharded over ranks."""
