"""What the batteries for methods and for strategies both check."""

import torch

from matcha_gnn.gamma.methods import BaseMethod
from matcha_gnn.gamma.models import Backbone
from matcha_gnn.gamma.running import run
from matcha_gnn.gamma.strategies import Strategy
from matcha_gnn.gamma.testing.graphs import snapshot, tiny_graph


def check_run(method: BaseMethod, model: Backbone, strategy: Strategy) -> None:
    """Valid probabilities, callers untouched, labels not read, and the same bits again."""
    graph = tiny_graph()
    before = snapshot(model, graph)
    first = run(model, graph, method, strategy, seed=3)
    same = all(torch.equal(a, b) for a, b in zip(before, snapshot(model, graph), strict=True))
    assert same, "the caller's model and graph should be bit-identical afterwards"
    probs = first.probs
    assert probs.shape == (120, 3), f"probs should be [120, 3], not {list(probs.shape)}"
    assert not probs.requires_grad, "probs should be detached"
    assert bool((probs >= 0).all()), "probabilities should not be negative"
    one = torch.ones(len(probs), dtype=probs.dtype)
    torch.testing.assert_close(probs.sum(1), one, msg="rows of probs should sum to one")
    again = run(model, tiny_graph(), method, strategy, seed=3)
    same = torch.equal(probs, again.probs) and torch.equal(first.gamma, again.gamma)
    assert same, "the same seed should give the same answer"
    del graph.y
    hidden = run(model, graph, method, strategy, seed=3).probs
    assert torch.equal(probs, hidden), "hiding y should change nothing"
