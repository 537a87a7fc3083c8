"""What exists only to reproduce the Matcha paper: its experiments, tables, figures and theory.

Nothing in the library imports it.
"""
