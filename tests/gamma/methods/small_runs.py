"""A GPRGNN away from its starting values, a directed graph, and runs of a method on them."""

import torch
from torch import nn

import matcha_gnn as mg
from matcha_gnn.gamma.methods import View
from matcha_gnn.graphs.memory import Graph

K, FEATURES = 3, 6


def drawn_gprgnn(classes=3, width=8, bias=False, dtype=torch.float64):
    """Weights, statistics and γ are all away from their starting values."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = mg.GPRGNN(FEATURES, classes, hidden_channels=width, K=K)
        model.head = nn.Linear(width, classes, bias=bias)
        for tensor in (model.norm.weight, model.norm.bias, model.norm.running_mean, model.gamma):
            nn.init.normal_(tensor)
        nn.init.uniform_(model.norm.running_var, 0.5, 2.0)
    return model.to(dtype).frozen()


def directed_graph(dtype=torch.float64, nodes=40):
    generator = torch.Generator().manual_seed(5)
    return Graph(
        torch.randn(nodes, FEATURES, generator=generator, dtype=dtype) + 0.5,
        torch.randint(nodes, (2, 4 * nodes), generator=generator),
        torch.rand(4 * nodes, generator=generator, dtype=dtype),
    )


def view_of(model, graph, seed=0):
    return View(model, graph, model.hops(graph), model.gamma.detach().clone(), seed)


def answer(method, model, graph, rounds=1, seed=0):
    """The last prediction of some rounds that carry on, and the state after it."""
    view = view_of(model, graph, seed)
    with torch.no_grad():
        state = method.start(view, method.prepare(view))
        for _ in range(rounds):
            prediction, state = method.predict(view, state)
    return prediction, state


def assert_predicting_leaves_the_state_as_it_was(method):
    model, graph = drawn_gprgnn(), directed_graph()
    view, (_, state) = view_of(model, graph), answer(method, model, graph)
    first, _ = method.predict(view, state)
    again, _ = method.predict(view, state)
    assert torch.equal(first.probs, again.probs)


def assert_carrying_on_is_taking_more_steps(short, long, model):
    """Two rounds of the one, and one of the other, which takes twice the steps."""
    twice, _ = answer(short, model, directed_graph(), rounds=2)
    once, _ = answer(long, model, directed_graph())
    torch.testing.assert_close(twice.probs, once.probs, atol=1e-12, rtol=0)
