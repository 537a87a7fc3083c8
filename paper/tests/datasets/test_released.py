"""The graphs and splits of the published runs, recovered exactly."""

import numpy as np
import pytest
import torch

from matcha_gnn.errors import InvalidArgumentError
from matcha_paper.datasets import released_csbm, syn_cora, twitch
from matcha_paper.datasets.released import DRAWN, draw_edges
from matcha_paper.datasets.splits import released_split, row_hashes
from matcha_paper.datasets.statistics import statistics

EDGES = (12714, 12500, 24514, 5054, 12500, 12486, 25410, 5030)
"""Directed edges of the published graphs, in the order of the stream."""


@pytest.fixture(scope="module")
def graphs():
    # From the last to the first, so that the order of calls cannot matter.
    made = [released_csbm(d, h, delta_mu) for delta_mu, d, h in reversed(DRAWN)]
    return made[::-1]


def test_all_eight_graphs_have_the_published_number_of_edges(graphs):
    assert tuple(graph.num_edges for graph in graphs) == EDGES
    for graph in graphs:
        assert graph.is_undirected()
        assert not graph.has_self_loops()
        assert graph.x.dtype == torch.float32
        assert graph.y.tolist() == [1] * 2500 + [0] * 2500


def test_edges_are_those_of_pair_after_pair():
    """The released rule, one number a pair, on a graph that is small enough for it."""
    same, other, nodes = 0.1, 0.03, 60
    stream, slow = (np.random.RandomState(7) for _ in range(2))
    pairs = []
    for i in range(nodes):
        alike = [j for j in range(i + 1, nodes) if (i < 30) == (j < 30)]
        unlike = [j for j in range(i + 1, nodes) if (i < 30) != (j < 30)]
        for members, rate in ((alike, same), (unlike, other)):
            pairs += [(i, j) for j in members if slow.binomial(1, rate)]
    assert len(pairs) > 50
    assert draw_edges(stream, nodes, same, other).T.tolist() == [list(pair) for pair in pairs]
    assert stream.random_sample() == slow.random_sample()


def test_the_released_twitch_draw_has_the_printed_homophilies(data_root):
    graphs = twitch("released", data_root)
    assert statistics(graphs.target).homophily == pytest.approx(0.1394, abs=5e-5)
    assert statistics(graphs.validation).homophily == pytest.approx(0.1830, abs=5e-5)
    own = twitch(root=data_root)
    assert graphs.target.num_edges == own.target.num_edges == 19605
    assert not torch.equal(graphs.target.edge_index, own.target.edge_index)
    assert torch.equal(graphs.source.edge_index, own.source.edge_index)


def test_the_released_split_takes_every_fourth_node_of_a_class_by_its_weighted_row():
    generator = torch.Generator().manual_seed(0)
    x = (torch.rand(40, 30, generator=generator) < 0.3).float()
    y = torch.arange(40) % 2
    train, test = released_split(x, y)
    assert bool((train ^ test).all())
    for label in (0, 1):
        place = {
            node: sum(1.001**f for f in range(30) if x[node, f]) for node in range(label, 40, 2)
        }
        ordered = sorted(place, key=place.get)
        assert sorted(ordered[::4]) == (train & (y == label)).nonzero().flatten().tolist()


def test_the_released_split_of_syn_cora(data_root):
    graphs = syn_cora(root=data_root, split="released")
    for graph in graphs:
        assert torch.bincount(graph.y[graph.train_mask]).tolist() == [75] * 5
    trained = set(row_hashes(graphs.source.x[graphs.source.train_mask]))
    tested = set(row_hashes(graphs.target.x[graphs.target.test_mask]))
    # Equal rows of Cora that this split takes apart; `split_by_features` has none.
    assert len(trained & tested) == 4
    with pytest.raises(InvalidArgumentError, match="split"):
        syn_cora(root=data_root, split="random")
