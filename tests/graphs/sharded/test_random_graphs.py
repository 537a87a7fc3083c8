"""Small random graphs on two ranks: as in one process, whatever their edges."""

import numpy as np
import torch
from spawning import adapt_on_ranks, results_of
from test_equality import CLASSES, FEATURES, small_model
from torch_geometric.data import Data

import matcha_gnn as mg

RUNS = [
    (mg.ERM(), mg.Matcha(rounds=3)),
    (mg.T3A(k=5), mg.Matcha(rounds=3)),
    (mg.Tent(), mg.Matcha(rounds=3)),
    (mg.ERM(), mg.Unadapted()),
]
SEEDS = range(8)


def random_graph(seed):
    """Directed, with loops, repeated edges and isolated nodes; the first has few nodes."""
    draw = torch.Generator().manual_seed(seed)
    nodes = 2 + 5 * seed
    x = torch.randn(nodes, FEATURES, generator=draw)
    edges = torch.randint(max(1, nodes - 3), (2, 3 * seed), generator=draw)
    return Data(x=x, edge_index=torch.cat([edges, edges[:, :4]], 1))


def all_runs(rank):
    found = []
    for seed in SEEDS:
        for method, strategy in RUNS:
            result = adapt_on_ranks(small_model(), random_graph(seed), method, strategy)
            found.append((result.nodes, result.probs, result.gamma))
    return found


def test_two_ranks_give_what_one_process_does():
    assert random_graph(0).num_nodes < CLASSES
    places = [(seed, run) for seed in SEEDS for run in RUNS]
    one, other = results_of(2, all_runs)
    assert len(one) == len(other) == len(places)
    for (seed, (method, strategy)), *answers in zip(places, one, other, strict=True):
        alone = mg.adapt(small_model(), random_graph(seed), method, strategy)
        assert sum(len(nodes) for nodes, _, _ in answers) == len(alone.probs)
        for nodes, probs, gamma in answers:
            np.testing.assert_allclose(probs, alone.probs[nodes], atol=1e-5)
            np.testing.assert_allclose(gamma, alone.gamma, atol=1e-5)
