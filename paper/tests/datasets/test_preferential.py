"""The generator against a plain twin of its rule, and against the 36 published Syn-Cora graphs."""

from collections import Counter
from functools import cache

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from matcha_paper.datasets import cora, preferential
from matcha_paper.datasets.preferential import compatibility
from matcha_paper.datasets.splits import row_hashes
from matcha_paper.datasets.syn_cora import HOMOPHILIES, RUNS, syn_cora_graph

# What the generated graphs may differ by from the published ones, in the mean over graphs.
SHARE_TOLERANCE = 0.02  # homophily, and shares of edges by steps between classes


def pool(per_class=298, classes=5):
    y = torch.arange(classes).repeat_interleave(per_class)
    return Data(x=torch.arange(len(y), dtype=torch.float).view(-1, 1), y=y, number=y * 7)


def degrees(graph):
    return np.bincount(graph.edge_index[1].numpy(), minlength=graph.num_nodes)


def step_shares(graph, classes=5):
    """Share of edges by the steps between the classes of their ends, around the circle."""
    first, second = graph.y[graph.edge_index].numpy()
    step = np.abs(first - second)
    return np.bincount(np.minimum(step, classes - step), minlength=classes // 2 + 1) / len(step)


# The rule


def twin(classes, per_class, homophily, links, seed_nodes, rng):
    """Labels and degrees in the order of growth, by NumPy's own draw without replacement."""
    chance = compatibility(classes, homophily)
    head = rng.permutation(np.repeat(np.arange(classes), links))
    tail = rng.permutation(np.repeat(np.arange(classes), per_class - links))
    labels = np.concatenate([head, tail])
    degree, edges = np.zeros(len(labels)), []
    for v in range(2, len(labels)):
        weight = chance[labels[v], labels[:v]] * np.maximum(degree[:v], 1)
        if v >= seed_nodes:
            partners = rng.choice(v, links, replace=False, p=weight / weight.sum())
        elif 0 < homophily < 1:
            partners = [v - 1]
        else:
            partners = rng.choice(v, 1, p=weight / weight.sum()) if weight.sum() else []
        for u in partners:
            degree[[u, v]] += 1
            edges.append((labels[u], labels[v]))
    return labels, degree, np.array(edges)


def describe(labels, degree, edges, classes):
    """Numbers whose means must agree: degrees by age, spread, edges by class step."""
    step = np.abs(edges[:, 0] - edges[:, 1])
    step = np.bincount(np.minimum(step, classes - step), minlength=classes // 2 + 1)
    ages = [degree[a:b].mean() for a, b in ((0, 4), (4, 12), (12, 40), (40, None))]
    return [len(edges), *ages, (degree**2).mean(), degree.max(), *step]


@pytest.mark.parametrize("homophily", [0.0, 0.3, 0.9, 1.0])
def test_urns_draw_as_the_plain_rule_does(homophily):
    classes, per_class, links, seed_nodes, graphs = 4, 25, 3, 14, 80
    ours, plain = [], []
    for seed in range(graphs):
        graph = preferential(pool(per_class, classes), homophily, links, seed_nodes, seed)
        half = graph.edge_index[:, : graph.num_edges // 2]
        edges = graph.y[half].T.numpy()
        ours.append(describe(graph.y.numpy(), degrees(graph), edges, classes))
        rng = np.random.default_rng(1000 + seed)
        plain.append(
            describe(*twin(classes, per_class, homophily, links, seed_nodes, rng), classes)
        )
    ours, plain = np.array(ours), np.array(plain)
    error = np.sqrt((ours.var(0) + plain.var(0)) / graphs)
    gap = np.abs(ours.mean(0) - plain.mean(0))
    assert (gap <= 4.5 * error + 1e-9).all()


@pytest.mark.parametrize(("classes", "row"), [(2, [1]), (3, [1, 1]), (5, [2, 1, 1, 2])])
def test_compatibility_halves_with_each_step(classes, row):
    found = compatibility(classes, 0.25)
    np.testing.assert_allclose(found[0], [0.25, *(0.75 * np.array(row) / sum(row))])
    np.testing.assert_allclose(found.sum(1), 1)
    np.testing.assert_allclose(found, found.T)


def test_each_node_of_the_pool_is_dealt_once_with_all_it_has():
    given = pool(60)
    graph = preferential(given, 0.5)
    assert sorted(graph.x[:, 0].tolist()) == given.x[:, 0].tolist()
    number = graph.x[:, 0].long()
    assert torch.equal(given.y[number], graph.y)
    assert torch.equal(given.number[number], graph.number)
    assert "edge_index" not in given


def test_ten_thousand_nodes_have_the_published_number_of_edges():
    assert preferential(pool(1000, 10), 0.2, 6, 70).num_edges == 2 * 59648
    assert preferential(pool(1000, 10), 1.0, 6, 70).num_edges == pytest.approx(2 * 59640, abs=4)


# The published graphs


@cache
def published(homophily, root):
    return [syn_cora_graph(homophily, run, root) for run in RUNS]


@cache
def generated(homophily):
    seeds = np.random.SeedSequence([10, int(100 * homophily)]).generate_state(6).tolist()
    return [preferential(pool(), homophily, seed=seed) for seed in seeds]


@pytest.mark.parametrize("homophily", HOMOPHILIES)
def test_edge_counts_are_exactly_those_of_the_published_graphs(homophily, data_root):
    theirs = {graph.num_edges // 2 for graph in published(homophily, data_root)}
    ours = {graph.num_edges // 2 for graph in generated(homophily)}
    if homophily < 1:
        assert ours == theirs == {2968}
    else:
        # One less where the first two nodes, which are never linked, share a class.
        assert theirs == {2965}
        assert ours <= {2964, 2965}


@pytest.mark.parametrize("homophily", HOMOPHILIES)
def test_class_to_class_edge_shares_are_those_of_the_published_graphs(homophily, data_root):
    theirs = np.mean([step_shares(g) for g in published(homophily, data_root)], axis=0)
    ours = np.mean([step_shares(g) for g in generated(homophily)], axis=0)
    np.testing.assert_allclose(ours, theirs, atol=SHARE_TOLERANCE)


def test_syn_coras_rows_are_the_first_298_of_coras_five_largest_classes(data_root):
    whole = cora(data_root)
    largest = torch.bincount(whole.y).argsort(descending=True)[:5]
    rows = torch.cat([(whole.y == c).nonzero().squeeze(1)[:298] for c in largest])
    theirs = syn_cora_graph(0.2, 1, data_root)
    assert Counter(row_hashes(whole.x[rows])) == Counter(row_hashes(theirs.x))
