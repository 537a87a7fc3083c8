"""SOGA against a plain run of the whole model on a plain loss, its pairs, and its edges."""

import copy
import dataclasses

import pytest
import torch
from small_runs import (
    K,
    answer,
    assert_carrying_on_is_taking_more_steps,
    directed_graph,
    drawn_gprgnn,
    view_of,
)
from torch import nn

import matcha_gnn as mg
from matcha_gnn.gamma.methods.soga import SOGA, draw_pairs
from matcha_gnn.gamma.methods.tuning import FilterTuner
from matcha_gnn.graphs.memory import Graph


class Plain(mg.FilterBackbone):
    """No batch norm, and a head with a bias."""

    def __init__(self, classes=3, width=8):
        super().__init__()
        self.in_channels, self.num_hops = 6, K
        self.first, self.second = nn.Linear(6, width), nn.Linear(width, width)
        self.gamma = nn.Parameter(torch.tensor([0.4, 0.3, -0.2, 0.7]))
        self.head = nn.Linear(width, classes)

    def encode(self, x):
        return torch.tanh(self.second(torch.tanh(self.first(x))))


def model_of(classes=3, width=8, plain=False, dtype=torch.float64):
    if not plain:
        return drawn_gprgnn(classes, width, dtype=dtype)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return Plain(classes, width).to(dtype).frozen()


def plain_loss(probs, contrasts):
    """The formula node by node: entropy, diversity, and the two contrasts."""
    n, mean = len(probs), probs.mean(0)
    loss = -(probs * (probs + 1e-5).log()).sum() / n + (mean * (mean + 1e-8).log()).sum()
    for weight, (positive, negative) in contrasts:
        for i in range(n):
            near = torch.exp(probs[i] @ probs[positive[i]])
            far = sum(torch.exp(probs[i] @ probs[j]) for j in negative[:, i])
            loss = loss - weight * torch.log(near / far) / n
    return loss


def plain_soga(model, graph, method, contrasts):
    """All weights, γ optionally, by torch's own optimizers through the whole model."""
    model = copy.deepcopy(model)
    moves = [p for p in model.parameters() if method.moves_gamma or p is not model.gamma]
    trained = [p.requires_grad_() for p in moves]
    kind = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[method.optimizer]
    optimizer = kind(trained, lr=method.lr)

    def probs():
        return model(graph.x, graph.edge_index, graph.edge_weight).softmax(-1)

    for _ in range(method.steps):
        loss = plain_loss(probs(), contrasts)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return probs().detach(), model


@pytest.mark.parametrize(
    ("options", "plain"),
    [
        ({}, False),
        ({"steps": 3, "lr": 0.3}, False),
        ({"steps": 3, "lr": 0.3}, True),
        ({"steps": 3, "lr": 0.05, "optimizer": "adam"}, False),
        ({"lambda_struct": 0.0, "lambda_neigh": 2.5}, False),
        ({"lambda_struct": 3.0, "lambda_neigh": 0.5}, True),
        ({"lambda_struct": 0.0, "lambda_neigh": 0.0, "steps": 2}, False),
        ({"steps": 2, "moves_gamma": True}, False),
        ({"steps": 2, "lr": 0.05, "optimizer": "adam", "moves_gamma": True}, True),
    ],
)
def test_agrees_with_a_plain_run(options, plain):
    model, graph, method = model_of(plain=plain), directed_graph(), SOGA(**options)
    got, state = answer(method, model, graph)
    expected, adapted = plain_soga(model, graph, method, state.contrasts)
    torch.testing.assert_close(got.probs, expected, atol=1e-10, rtol=0)
    for name, value in state.tuned.point.values.items():
        torch.testing.assert_close(value, adapted.state_dict()[name], atol=1e-9, rtol=0)
    assert (got.probs - answer(SOGA(steps=0), model, graph)[0].probs).abs().max() > 1e-4


def test_a_gamma_that_moves_starts_every_run_at_the_one_given():
    model, graph, method = model_of(), directed_graph(), SOGA(moves_gamma=True)
    _, state = answer(method, model, graph)
    assert not torch.allclose(state.tuned.point.values["gamma"], model.gamma, atol=1e-4)
    view = view_of(model, graph)
    still = dataclasses.replace(view, gamma=torch.zeros_like(view.gamma))
    again, _ = SOGA(steps=0, moves_gamma=True).predict(still, state)
    # Without hops nothing is left but the head's bias, of which a GPRGNN has none.
    torch.testing.assert_close(again.probs, torch.full_like(again.probs, 1 / 3))


@pytest.mark.parametrize(("classes", "width"), [(2, 8), (5, 3)])
def test_agrees_on_either_side_of_the_head(classes, width):
    model, graph, method = model_of(classes, width), directed_graph(), SOGA(steps=2)
    got, state = answer(method, model, graph)
    expected, _ = plain_soga(model, graph, method, state.contrasts)
    torch.testing.assert_close(got.probs, expected, atol=1e-10, rtol=0)


# Pairs


def star(leaves=4, isolated=2):
    """Node 0 in the middle with self loop and a repeated edge; the last nodes stand alone."""
    spokes = torch.stack([torch.zeros(leaves, dtype=torch.long), torch.arange(1, leaves + 1)])
    extra = torch.tensor([[0, 0, 1], [0, 1, 0]])
    edges = torch.cat([spokes, spokes.flip(0), extra], 1)
    return Graph(torch.ones(1 + leaves + isolated, 6), edges)


def drawn(graph, negatives=5, times=400):
    generator = torch.Generator().manual_seed(1)
    pairs = [draw_pairs(graph, negatives, generator) for _ in range(times)]
    return torch.stack([p.positive for p in pairs]), torch.stack([p.negative for p in pairs])


def test_positives_are_neighbours_drawn_uniformly():
    positive, _ = drawn(star())
    assert (positive[:, 1:5] == 0).all()
    assert (positive[:, 5:] == torch.tensor([5, 6])).all(), "a lone node is its own neighbour"
    counts = positive[:, 0].bincount(minlength=7)
    assert counts[0] == counts[5:].sum() == 0
    expected = 400 / 4
    chi_square = ((counts[1:5] - expected) ** 2 / expected).sum()
    assert chi_square < 16.3, "the 0.1% point with three degrees of freedom"


def test_negatives_are_drawn_by_degree():
    _, negative = drawn(star(), negatives=3, times=200)
    assert negative.shape == (200, 3, 7)
    counts = negative.flatten().bincount(minlength=7)
    assert counts[5:].sum() == 0
    expected = negative.numel() * torch.tensor([4, 1, 1, 1, 1]) / 8
    chi_square = ((counts[:5] - expected) ** 2 / expected).sum()
    assert chi_square < 18.5, "the 0.1% point with four degrees of freedom"


def test_on_directed_graphs_positives_succeed_and_degrees_count_both_directions():
    # 0 → 1, 0 → 2, 3 → 0; node 4 stands alone.
    graph = Graph(torch.ones(5, 6), torch.tensor([[0, 0, 3], [1, 2, 0]]))
    positive, negative = drawn(graph)
    assert set(positive[:, 0].tolist()) == {1, 2}
    assert (positive[:, [1, 2, 4]] == torch.tensor([1, 2, 4])).all(), "they have no successor"
    assert (positive[:, 3] == 0).all()
    counts = negative.flatten().bincount(minlength=5)
    assert counts[4] == 0
    expected = negative.numel() * torch.tensor([3, 1, 1, 1]) / 6
    chi_square = ((counts[:4] - expected) ** 2 / expected).sum()
    assert chi_square < 16.3, "the 0.1% point with three degrees of freedom"


def test_own_hops_are_those_of_the_adapted_model(monkeypatch):
    calls = []
    stack = FilterTuner.stack
    monkeypatch.setattr(
        FilterTuner, "stack", lambda self, point: calls.append(1) or stack(self, point)
    )
    model, graph, method = model_of(), directed_graph(), SOGA(steps=2)
    prediction, state = answer(method, model, graph)
    assert not calls, "they are made for who asks"
    _, adapted = plain_soga(model, graph, method, state.contrasts)
    expected = adapted.frozen().hops(graph).stack
    torch.testing.assert_close(prediction.hops.stack, expected, atol=1e-10, rtol=0)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_carrying_on_is_taking_more_steps(optimizer):
    short, long = (SOGA(steps, 0.05, optimizer) for steps in (2, 4))
    assert_carrying_on_is_taking_more_steps(short, long, model_of())
