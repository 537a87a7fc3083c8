"""Cora and Coauthor-CS from their raw files."""

import pytest
import torch
from torch_geometric.utils import contains_self_loops, homophily

from matcha_gnn.errors import InvalidFileError
from matcha_paper.datasets import coauthor_cs, cora


def test_cora_is_planetoids(data_root):
    graph = cora(data_root)
    assert graph.is_undirected()
    assert not contains_self_loops(graph.edge_index)
    assert [int(graph[f"{part}_mask"].sum()) for part in ("train", "val", "test")] == [
        140,
        500,
        1000,
    ]
    assert torch.bincount(graph.y[graph.train_mask]).tolist() == [20] * 7
    # Class sizes and edge homophily as the literature has them.
    assert torch.bincount(graph.y).tolist() == [351, 217, 418, 818, 426, 298, 180]
    assert homophily(graph.edge_index, graph.y, method="edge") == pytest.approx(0.81, abs=0.005)
    assert set(graph.x.unique().tolist()) == {0.0, 1.0}


def test_a_pickle_that_is_not_the_published_one_is_never_opened(tmp_path, monkeypatch):
    folder = tmp_path / "planetoid"
    folder.mkdir()
    (folder / "ind.cora.x").write_bytes(b"cos\nsystem\n(S'exit 1'\ntR.")
    monkeypatch.setattr("pickle.load", lambda *_, **__: pytest.fail("opened"))
    with pytest.raises(InvalidFileError, match="other content"):
        cora(tmp_path)


def test_coauthor_cs_keeps_its_features_sparse(data_root):
    graph = coauthor_cs(data_root)
    assert graph.x.layout == torch.sparse_csr
    assert graph.x.values().numel() == 1092079
    assert graph.is_undirected()
    assert not contains_self_loops(graph.edge_index)
    assert int((torch.bincount(graph.y) >= 708).sum()) == 10
