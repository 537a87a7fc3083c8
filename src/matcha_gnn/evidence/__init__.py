"""Evidence for the classes of a graph without labels: features of a node, then edges."""
