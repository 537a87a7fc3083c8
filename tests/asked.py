"""A graph whose structure has flipped, and its true classes as answers."""

SIZE = {"num_nodes": 1500, "num_features": 64, "signal": 1.3}


def truth(questions, target):
    """The true class of every node that was asked about."""
    return {each.node: int(target.y[each.node]) for each in questions}
