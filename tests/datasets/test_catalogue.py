"""Every graph by name."""

from importlib.metadata import entry_points

import pytest

import matcha_gnn as mg
from matcha_gnn.datasets import make_graph
from matcha_gnn.datasets.catalogue import GROUP, known_graphs
from matcha_paper import datasets as paper_datasets


@pytest.mark.parametrize(
    ("name", "nodes", "edges"),
    [
        ("syn-cora", 1490, 5936),
        ("twitch", 7126, 19605),
        ("cora", 2708, 10556),
        ("coauthor-cs", 18333, 163788),
    ],
)
def test_data_sets_at_hand_have_their_published_size(name, nodes, edges, data_root):
    graph = make_graph(name, root=data_root)
    assert (graph.num_nodes, graph.num_edges) == (nodes, edges)
    assert graph.y is not None


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("syn-cor", {}, r"NAME: got 'syn-cor' \(did you mean syn_cora\?\)"),
        ("twitch", {"homophily": 0.2}, "homophily: got 0.2; allowed: an option of twitch"),
        ("cora", {"seed": 1}, "seed: got 1"),
        ("csbm", {"part": "target"}, "an option of csbm"),
    ],
)
def test_wrong_use_is_one_clear_line(name, options, says):
    with pytest.raises(mg.InvalidArgumentError, match=says):
        make_graph(name, **options)


@pytest.mark.parametrize("name", ["syn-cora", "twitch", "cora", "coauthor-cs"])
def test_a_missing_data_set_says_what_goes_where(name, tmp_path, monkeypatch):
    def offline(address, timeout):
        raise OSError("no network here")

    monkeypatch.setattr("urllib.request.urlopen", offline)
    with pytest.raises(mg.InvalidFileError) as caught:
        make_graph(name, root=tmp_path)
    said = str(caught.value)
    assert str(tmp_path) in said
    assert "MATCHA_DATA" in said
    assert "\n" not in said


def test_names_are_those_of_the_functions():
    for name in known_graphs():
        assert callable(getattr(mg.datasets, name))
    for point in entry_points(group=GROUP):
        assert callable(getattr(paper_datasets, point.name))
