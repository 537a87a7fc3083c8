"""How a better model is sought on a target graph."""
