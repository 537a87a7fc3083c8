"""The command `matcha`."""

from matcha_gnn.cli.app import main

__all__ = ["main"]
