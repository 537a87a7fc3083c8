"""Every graph by name, from Python and from `matcha make-graph`."""

from importlib.metadata import entry_points

import pytest
import torch
from matcha_gnn.testing import tiny_graph, trained_model

import matcha_gnn as mg
from matcha_gnn import cli
from matcha_gnn.datasets import make_graph
from matcha_gnn.datasets.catalogue import GROUP, known_graphs
from matcha_gnn.errors import InvalidArgumentError
from matcha_gnn.metrics import edge_homophily
from matcha_paper import datasets as paper_datasets


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as stopped:
        cli.main(["make-graph", *map(str, arguments)])
    return stopped.value.code, capsys.readouterr().err


@pytest.fixture
def out(tmp_path):
    return tmp_path / "g.npz"


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
def test_every_data_set_at_hand_is_written_as_a_file(name, nodes, edges, data_root, out, capsys):
    assert run(capsys, name, "-o", out, "--root", data_root) == (0, "")
    graph = mg.read_graph(out)
    assert (graph.num_nodes, graph.num_edges) == (nodes, edges)
    assert graph.y is not None


def test_a_part_with_its_masks_and_homophily(data_root, out, capsys):
    options = ["--part", "source", "--homophily", 0.9, "--run", 2, "--root", data_root]
    assert run(capsys, "syn-cora", "-o", out, *options)[0] == 0
    expected = paper_datasets.syn_cora(source=0.9, run=2, root=data_root).source
    written = mg.read_graph(out)
    for name in ("x", "edge_index", "y", "train_mask", "test_mask"):
        assert torch.equal(written[name], expected[name])


def test_a_users_own_file_is_shifted(tmp_path, out, capsys):
    mg.write_graph(tiny_graph(), tmp_path / "own.npz")
    changes = ["--change", "homophily=0.5", "--change", "class-shares=0.5,0.3,0.2"]
    assert run(capsys, tmp_path / "own.npz", "-o", out, *changes, "--seed", 3)[0] == 0
    targets = {"homophily": 0.5, "class-shares": (0.5, 0.3, 0.2)}
    expected = mg.transforms.shifted(tiny_graph(), targets, seed=3)
    assert torch.equal(mg.read_graph(out).edge_index, expected.edge_index)


def test_a_drawn_graph_is_shifted_too(out, capsys):
    sizes = ["--nodes", 500, "--features", 4, "--degree", 6]
    assert run(capsys, "csbm", "-o", out, *sizes, "--change", "homophily=0.1")[0] == 0
    graph = mg.read_graph(out)
    assert edge_homophily(graph.edge_index, graph.y) == pytest.approx(0.1, abs=0.005)


def test_a_graph_is_attacked_with_a_model_file(tmp_path, out, capsys):
    mg.write_graph(tiny_graph(), tmp_path / "own.npz")
    mg.save_model(trained_model(), tmp_path / "m.safetensors")
    options = ["--attack", tmp_path / "m.safetensors", "--rate", 0.1, "--seed", 2]
    assert run(capsys, tmp_path / "own.npz", "-o", out, *options)[0] == 0
    expected = mg.transforms.attacked(trained_model(), tiny_graph(), 0.1, seed=2)
    assert torch.equal(mg.read_graph(out).edge_index, expected.edge_index)


def test_a_seed_of_the_change_is_no_seed_of_a_fixed_graph(data_root, out, capsys):
    options = ["--root", data_root, "--change", "degree=2", "--seed", 5]
    assert run(capsys, "cora", "-o", out, *options)[0] == 0
    assert mg.read_graph(out).num_edges == 5416


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["syn-cor"], "NAME: got 'syn-cor' (did you mean syn_cora?)"),
        (["twitch", "--homophily", "0.2"], "homophily: got 0.2; allowed: an option of twitch"),
        (["cora", "--part", "source"], "part: got source; allowed: an option of cora: root"),
        (["cora", "--seed", "1"], "seed: got 1"),
        (["syn-cora", "--part", "middle"], "part: got 'middle'; allowed: source, validation"),
        (["csbm", "--change", "homophily"], "--change: got homophily; allowed: NAME=NUMBER"),
        (["csbm", "--change", "degree=a"], "--change degree: got a"),
        (["csbm", "--nodes", "50", "--change", "size=3"], "shift: got 'size'"),
    ],
)
def test_wrong_use_is_one_clear_line(arguments, says, out, capsys):
    code, said = run(capsys, *arguments, "-o", out)
    assert code == 2
    assert said.startswith("matcha: ")
    assert says in said
    assert said.count("\n") == 1
    assert not out.exists()


def test_a_file_takes_no_options_of_a_data_set(tmp_path, out, capsys):
    mg.write_graph(tiny_graph(), tmp_path / "own.npz")
    code, said = run(capsys, tmp_path / "own.npz", "-o", out, "--degree", 2)
    assert code == 2
    assert "degree: got 2.0; allowed: --change and --seed for a file" in said


def test_a_missing_data_set_says_what_goes_where(tmp_path, out, capsys, monkeypatch):
    def offline(address, timeout):
        raise OSError("no network here")

    monkeypatch.setattr("urllib.request.urlopen", offline)
    for name in ("syn-cora", "twitch", "cora", "coauthor-cs", "syn-products", "arxiv"):
        code, said = run(capsys, name, "-o", out, "--root", tmp_path)
        assert code == 2
        assert str(tmp_path) in said
        assert "MATCHA_DATA" in said
        assert said.count("\n") == 1


def test_names_are_those_of_the_functions():
    for name in known_graphs():
        assert callable(getattr(mg.datasets, name))
    for point in entry_points(group=GROUP):
        assert callable(getattr(paper_datasets, point.name))
    with pytest.raises(InvalidArgumentError, match="an option of csbm"):
        make_graph("csbm", part="target")
