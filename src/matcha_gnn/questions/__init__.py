"""Ask for the labels of a few nodes, and decide by the answers."""
