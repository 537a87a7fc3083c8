"""PR-BCD stays within its budget, hurts, and leaves models, graphs and other attacks alone."""

import copy

import pytest
import torch
from torch_geometric.nn import GCNConv
from torch_geometric.utils import contains_self_loops

import matcha_gnn as mg
from matcha_gnn.errors import IncompatibleError
from matcha_gnn.gamma.testing import tiny_graph, trained_model
from matcha_gnn.metrics import accuracy
from matcha_paper.attack import _differentiable, attacked

QUICK = {"epochs": 20, "block_size": 3000}


def pairs(graph):
    return {tuple(column) for column in graph.edge_index.T.tolist()}


@pytest.mark.parametrize("rate", [0.05, 0.2])
def test_no_more_edges_are_flipped_than_the_rate_allows(rate):
    graph = tiny_graph()
    hurt = attacked(trained_model(), graph, rate, **QUICK)
    flipped = pairs(graph) ^ pairs(hurt)
    assert 0 < len(flipped) // 2 <= round(rate * graph.num_edges / 2)
    assert hurt.is_undirected()
    assert not contains_self_loops(hurt.edge_index)
    assert hurt.coalesce().num_edges == hurt.num_edges


def test_the_attack_hurts_more_than_random_flips():
    model, graph = trained_model(), tiny_graph(0.4, seed=5)
    before = accuracy(mg.predict(model, graph).probs, graph.y)
    hurt = attacked(model, graph, 0.2, **QUICK)
    after = accuracy(mg.predict(model, hurt).probs, graph.y)
    budget = len(pairs(graph) ^ pairs(hurt)) // 2
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randint(120, (2, budget), generator=generator)
    flips = {tuple(sorted(pair)) for pair in drawn.T.tolist() if pair[0] != pair[1]}
    both = flips | {(b, a) for a, b in flips}
    random = copy.copy(graph)
    random.edge_index = torch.tensor(sorted(pairs(graph) ^ both)).T
    by_chance = accuracy(mg.predict(model, random).probs, graph.y)
    assert after < by_chance - 0.04
    assert after < before - 0.08


def test_a_model_that_ignores_edge_weights_is_refused():
    class Deaf(GCNConv):
        def forward(self, x, edge_index, edge_weight=None):
            return super().forward(x, edge_index)

    with pytest.raises(IncompatibleError, match="Deaf cannot be differentiated"):
        attacked(Deaf(6, 3), tiny_graph(), 0.1, **QUICK)


def test_its_gradient_is_that_of_finite_differences():
    model, graph = trained_model().double(), tiny_graph()
    graph.x = graph.x.double()
    net = _differentiable(model, graph)
    weight = torch.full((graph.num_edges,), 0.7, dtype=torch.float64, requires_grad=True)

    def loss(weight):
        return net(graph.x, graph.edge_index, weight).square().mean()

    (slope,) = torch.autograd.grad(loss(weight), weight)
    for edge in (0, 7, 100):
        step = torch.zeros_like(weight)
        step[edge] = 1e-5
        with torch.no_grad():
            estimate = (loss(weight + step) - loss(weight - step)) / 2e-5
        assert float(slope[edge]) == pytest.approx(float(estimate), rel=1e-5, abs=1e-10)


# Isolation


def test_model_graph_and_global_generator_are_untouched_and_the_seed_repeats():
    model, graph = trained_model().train(), tiny_graph()
    weights = copy.deepcopy(model.state_dict())
    edges, state = graph.edge_index.clone(), torch.random.get_rng_state()
    first = attacked(model, graph, 0.1, seed=1, **QUICK)
    assert model.training
    assert all(p.requires_grad for p in model.parameters())
    assert all(torch.equal(value, weights[name]) for name, value in model.state_dict().items())
    assert torch.equal(graph.edge_index, edges)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.equal(first.edge_index, attacked(model, graph, 0.1, seed=1, **QUICK).edge_index)
    assert pairs(first) != pairs(attacked(model, graph, 0.1, seed=2, **QUICK))
