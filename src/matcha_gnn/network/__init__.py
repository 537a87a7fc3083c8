"""A network of nodes: how it is called, what it returns, in batches or whole."""
