"""Syn-CoauthorCS from real features, and Syn-Products on files in OGB's layout."""

import gzip

import numpy as np
import pytest
import torch
from torch_geometric.utils import homophily

from matcha_paper.datasets import syn_coauthor_cs, syn_products
from matcha_paper.datasets.splits import row_hashes, split_by_features


@pytest.fixture(scope="module")
def stand_in(data_root):
    return syn_coauthor_cs(root=data_root)


def test_the_stand_in_has_its_stated_size_and_homophily(stand_in):
    for graph, nominal in zip(stand_in, (0.8, 0.4, 0.2), strict=True):
        assert (graph.num_nodes, graph.num_edges // 2, graph.num_features) == (7000, 41648, 100)
        assert torch.bincount(graph.y).tolist() == [700] * 10
        assert homophily(graph.edge_index, graph.y, method="edge") == pytest.approx(
            nominal, abs=0.01
        )


def test_the_stand_in_leaks_no_row_from_source_to_target(stand_in):
    train = set(row_hashes(stand_in.source.x[stand_in.source.train_mask]))
    for graph in stand_in[1:]:
        assert not train & set(row_hashes(graph.x[graph.test_mask]))
        assert set(row_hashes(graph.x)) == set(row_hashes(stand_in.source.x))
    assert int(stand_in.source.train_mask.sum()) == pytest.approx(1750, abs=10)


def write_products(root, per_class=3001):
    """Twelve classes, two of them too small to be among the ten; a row tells its own number."""
    folder = root / "ogbn-products"
    folder.mkdir()
    labels = np.concatenate([np.repeat(np.arange(10), per_class), [10] * 20, [11] * 30])
    labels = np.random.default_rng(0).permutation(labels)
    with gzip.open(folder / "node-label.csv.gz", "wt", 1) as file:
        file.write("\n".join(map(str, labels)))
    zeros = ",0" * 98
    with gzip.open(folder / "node-feat.csv.gz", "wt", 1) as file:
        file.write("\n".join(f"{n},{label}{zeros}" for n, label in enumerate(labels)))


@pytest.fixture(scope="module")
def grown(tmp_path_factory):
    root = tmp_path_factory.mktemp("root")
    write_products(root)
    return syn_products(root=root)


def test_syn_products_has_the_published_size(grown):
    for graph, nominal in zip(grown, (0.8, 0.4, 0.2), strict=True):
        assert (graph.num_nodes, graph.num_edges // 2, graph.num_features) == (10_000, 59648, 100)
        assert torch.bincount(graph.y).tolist() == [1000] * 10
        assert homophily(graph.edge_index, graph.y, method="edge") == pytest.approx(
            nominal, abs=0.01
        )


def test_no_row_is_in_two_graphs_and_every_row_is_of_its_class(grown):
    rows = [set(graph.x[:, 0].tolist()) for graph in grown]
    assert len(set.union(*rows)) == 30_000
    for graph in grown:
        assert torch.equal(graph.x[:, 1].long(), graph.y)


def test_the_split_is_the_same_for_dense_and_sparse_features():
    generator = torch.Generator().manual_seed(0)
    x = (torch.rand(60, 9, generator=generator) < 0.4).float()
    y = torch.arange(60) % 3
    dense, sparse = (split_by_features(each, y)[0] for each in (x, x.to_sparse_csr()))
    assert torch.equal(dense, sparse)
