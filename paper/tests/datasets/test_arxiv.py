"""OGB-Arxiv's windows, on the real structure and on a small archive in OGB's layout."""

import gzip
import zipfile

import numpy as np
import pytest
import torch
from torch_geometric.utils import homophily

from matcha_gnn.errors import InvalidFileError
from matcha_paper.datasets import arxiv, arxiv_structure
from matcha_paper.datasets.arxiv import PUBLISHED
from matcha_paper.datasets.statistics import Statistics


@pytest.fixture(scope="module")
def graphs(data_root):
    return arxiv_structure(root=data_root)


def test_the_windows_are_those_of_the_paper(graphs):
    for part, nodes, edges in (
        ("source", 17401, 15830),
        ("validation", 41125, 18436),
        ("target", 169343, 251410),
    ):
        graph = getattr(graphs, part)
        assert (graph.num_nodes, graph.num_edges // 2) == (nodes, edges)
        found = homophily(graph.edge_index, graph.y, method="node")
        assert found == pytest.approx(PUBLISHED[part].homophily, abs=0.004)
    for graph in graphs[1:]:
        assert homophily(graph.edge_index, graph.y, method="edge") == pytest.approx(0.2, abs=1e-4)


def test_a_paper_has_the_same_features_and_topic_in_every_window(graphs):
    inside = ~graphs.target.test_mask
    assert torch.equal(graphs.target.x[inside], graphs.validation.x)
    assert torch.equal(graphs.target.y[inside], graphs.validation.y)
    inside = ~graphs.validation.test_mask
    assert torch.equal(graphs.validation.x[inside], graphs.source.x)


# A small archive


YEARS = np.array([2010, 2011, 2012, 2013, 2014, 2015, 2016, 2020, 2009, 2011])
TOPICS = np.array([0, 1, 0, 1, 0, 1, 0, 1, 0, 1])
CITES = np.array([(1, 0), (9, 8), (2, 0), (3, 2), (4, 3), (2, 1), (5, 4), (6, 5), (7, 6), (6, 0)])


def write_archive(folder, **changed):
    tables = {
        "edge.csv.gz": "\n".join(f"{a},{b}" for a, b in CITES),
        "node-feat.csv.gz": "\n".join(",".join([f"{n}.5"] * 128) for n in range(10)),
        "node-label.csv.gz": "\n".join(map(str, TOPICS)),
        "node_year.csv.gz": "\n".join(map(str, YEARS)),
    } | changed
    folder.mkdir(parents=True)
    with zipfile.ZipFile(folder / "arxiv.zip", "w") as archive:
        for name, text in tables.items():
            archive.writestr(f"arxiv/raw/{name}", gzip.compress(text.encode()))


@pytest.fixture
def small(monkeypatch):
    statistics = {
        "source": Statistics(4, 1, 128, 2, 0.5, 0.0),
        "validation": Statistics(7, 2, 128, 2, 0.71, 0.0, 1),
        "target": Statistics(10, 5, 128, 2, 1.0, 0.0, 1),
    }
    for part, expected in statistics.items():
        monkeypatch.setitem(PUBLISHED, part, expected)


def test_ogbs_archive_is_read_as_it_is(tmp_path, small):
    write_archive(tmp_path / "ogbn-arxiv")
    graphs = arxiv(root=tmp_path)
    # Papers 0, 1, 8 and 9 are there in 2011, in this order; 1 cites 0 and 9 cites 8.
    assert graphs.source.edge_index.tolist() == [[1, 3], [0, 2]]
    assert graphs.source.x[:, 0].tolist() == [0.5, 1.5, 8.5, 9.5]
    assert graphs.source.y.tolist() == [0, 1, 0, 1]
    assert graphs.validation.test_mask.tolist() == [False, False, True, True, True, False, False]


def test_features_of_another_shape_are_refused(tmp_path, small):
    write_archive(tmp_path / "ogbn-arxiv", **{"node-feat.csv.gz": "1,2\n3,4"})
    with pytest.raises(InvalidFileError, match=r"node-feat\.csv\.gz: got shape \(2, 2\)"):
        arxiv(root=tmp_path)
