"""Renumbering the nodes of any graph, down to three of them, renumbers the answer.

By hand over more graphs: PYTHONPATH=tests python tests/gamma/test_permutations.py 1000
"""

import sys
import warnings
from collections import Counter
from functools import cache

import pytest
import torch
from torch_geometric.data import Data

import matcha_gnn as mg
from matcha_gnn.gamma.methods import METHODS
from matcha_gnn.gamma.models import BACKBONES
from matcha_gnn.gamma.strategies import STRATEGIES
from matcha_gnn.gamma.testing import tiny_graph
from matcha_gnn.gamma.testing.graphs import FEATURES, permuted

QUICK = {"graphpatcher": {"hidden_channels": 8, "iterations": 20}, "lame": {"k": 30}}
"""Quick, and all nodes as neighbours: LAME takes the first of those that are equally near."""
FIXED = [kind(**QUICK.get(name, {})) for name, kind in METHODS.items() if not kind.draws_at_random]
"""Base methods that do not draw by the number of a node."""
RUNS = {
    "default": None,
    **{method.name: method for method in FIXED},
    **{f"matcha, {method.name}": mg.Matcha(method, rounds=3) for method in FIXED},
    **{name: kind() for name, kind in STRATEGIES.items() if name != "matcha"},
}
SIZES = (3, 4, 5, 8, 13, 30)
FEATURE_KINDS = (
    lambda x: 2 * x,
    lambda x: x + 3,
    torch.sign,
    torch.zeros_like,
    lambda x: x[:1].expand_as(x).contiguous(),
)
ALL_EQUAL = (3, 4)
"""Kinds where nodes differ in nothing but their edges: many hop weights have the least risk there,
and rounding decides which of them the closed form takes."""


@cache
def trained(backbone):
    model = BACKBONES[backbone](FEATURES, 3, hidden_channels=8)
    mg.fit(model, tiny_graph(0.8, seed=0), epochs=60, methods=FIXED)
    return model.double()


def drawn(number):
    """A graph of a few nodes, directed or not, with self loops and repeated edges; and an order."""
    draws = torch.Generator().manual_seed(number)
    nodes = SIZES[number % len(SIZES)]
    links = int(torch.randint(3 * nodes, (1,), generator=draws))
    edges = torch.randint(nodes, (2, links), generator=draws)
    if number % 2:
        edges = torch.cat([edges, edges.flip(0)], 1)
    x = torch.randn(nodes, FEATURES, generator=draws, dtype=torch.float64)
    made = FEATURE_KINDS[number // len(SIZES) % len(FEATURE_KINDS)]
    return Data(x=made(x), edge_index=edges), torch.randperm(nodes, generator=draws)


def determined(run, number):
    """Whether the algorithm has one answer."""
    return run != "closed_form" or number // len(SIZES) % len(FEATURE_KINDS) not in ALL_EQUAL


def failure(backbone, run, number):
    """What differs when the nodes are renumbered; nothing for a refusal of both."""
    graph, order = drawn(number)
    answers = []
    for given in (graph, permuted(graph, order)):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                answers.append(mg.adapt(trained(backbone), given, strategy=RUNS[run]).probs)
        except mg.MatchaError as error:
            answers.append(type(error).__name__)
    first, second = answers
    if isinstance(first, str) or isinstance(second, str):
        return "" if first == second else f"{first} and {second}"
    apart = float((first[order] - second).abs().max())
    return "" if apart < 1e-6 else f"{len(order)} nodes: {apart:.1e} apart"


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("backbone", BACKBONES)
def test_renumbering_the_nodes_renumbers_the_answer(backbone, run):
    numbers = range(len(FEATURE_KINDS) * len(SIZES))
    assert not any(failure(backbone, run, number) for number in numbers if determined(run, number))


def main(count):
    failed = Counter()
    for number in range(count):
        for backbone in BACKBONES:
            for run in RUNS:
                said = determined(run, number) and failure(backbone, run, number)
                if said:
                    failed[backbone, run] += 1
                    print(number, backbone, run, said, flush=True)
    print(dict(failed), "in", count, "graphs")


if __name__ == "__main__":
    main(int(sys.argv[1]))
