"""Every graph that experiment files and studies know by its name."""

import inspect

import pytest

from matcha_gnn.errors import InvalidArgumentError
from matcha_paper.datasets.named import GRAPHS, make_graph


@pytest.mark.parametrize(
    ("name", "nodes", "edges"),
    [
        ("syn-cora", 1490, 5936),
        ("twitch", 7126, 19605),
        ("cora", 2708, 10556),
        ("coauthor-cs", 18333, 163788),
        ("syn-coauthor-cs", 7000, 83296),
        ("arxiv-structure", 169343, 502821),
    ],
)
def test_every_data_set_at_hand_has_its_size(name, nodes, edges, data_root):
    graph = make_graph(name, root=data_root)
    assert (graph.num_nodes, graph.num_edges) == (nodes, edges)
    assert graph.y is not None


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("syn-cor", {}, "name: got 'syn-cor' (did you mean syn_cora?)"),
        ("twitch", {"homophily": 0.2}, "twitch: got 'homophily'; allowed: part, root"),
        ("cora", {"seed": 1}, "cora: got 'seed'; allowed: root"),
        ("syn-cora", {"part": "middle"}, "part: got 'middle'; allowed: source, validation"),
    ],
)
def test_wrong_use_is_one_clear_line(name, options, says):
    with pytest.raises(InvalidArgumentError) as refused:
        make_graph(name, **options)
    assert str(refused.value).startswith(says)


def test_a_missing_data_set_says_what_goes_where(tmp_path, monkeypatch):
    def offline(address, timeout):
        raise OSError("no network here")

    monkeypatch.setattr("urllib.request.urlopen", offline)
    stored = [name for name, make in GRAPHS.items() if "root" in inspect.signature(make).parameters]
    assert len(stored) == 8
    for name in stored:
        with pytest.raises(InvalidArgumentError, match="MATCHA_DATA") as refused:
            make_graph(name, root=tmp_path)
        assert str(tmp_path) in str(refused.value)
