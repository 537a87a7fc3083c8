"""The command on a network of the user's own module."""

import csv
import json

import numpy as np
import pytest
import torch
from torch_geometric.nn import GCN

import matcha_gnn as mg
from matcha_gnn.gamma.testing import tiny_graph
from running import run

MODULE = """
from torch_geometric.nn import GCN
def make():
    return GCN(6, 8, num_layers=2, out_channels=3)
class Net(GCN):
    def __init__(self):
        super().__init__(6, 8, num_layers=2, out_channels=3)
number = 3
def broken():
    raise ValueError("no such thing\\nat all")
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with a module, weights, a source summary and a graph; it is the current one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / f"{tmp_path.name}_nets.py").write_text(MODULE)
    torch.manual_seed(0)
    net, source = GCN(6, 8, num_layers=2, out_channels=3), tiny_graph(0.8, seed=0)
    steps = torch.optim.Adam(net.parameters(), lr=0.05)
    for _ in range(40):
        steps.zero_grad()
        out = net(source.x, source.edge_index)
        torch.nn.functional.cross_entropy(out, source.y).backward()
        steps.step()
    torch.save(net.state_dict(), "net.pt")
    mg.summarise_source(net.eval(), source).save("source.safetensors")
    mg.write_graph(tiny_graph(), "g.npz")
    return tmp_path


def network(place, name="make"):
    return ("--network", f"{place.name}_nets:{name}", "--weights", "net.pt")


@pytest.mark.parametrize("name", ["make", "Net"])
def test_a_network_of_the_current_folder_is_adapted(place, capsys, name):
    given = (*network(place, name), "--source", "source.safetensors")
    code, said, _ = run(capsys, "adapt", "g.npz", "-o", "out", *given)
    assert code == 0
    assert "Adapted (pool)" in said.replace("\n", " ")
    assert "No model file" in said
    summary = json.loads((place / "out" / "summary.json").read_text())
    assert summary["model_file"] is None
    assert summary["accuracy_after"] > summary["accuracy_before"]
    assert not (place / "out" / "model.safetensors").exists()


def test_inspect_compares_with_its_source(place, capsys):
    given = (*network(place), "--source", "source.safetensors", "--json")
    code, said, _ = run(capsys, "inspect", "g.npz", *given)
    assert code == 0
    found = json.loads(said)
    assert found["advice"]["advice"] == "adapt"
    assert found["source"]["edge homophily"] == pytest.approx(0.8, abs=0.1)
    assert not any("F1" in name for name in found["graph"])
    goal = ("--metric", "f1", "--positive", "late", "--classes", "early,middle,late")
    code, said, _ = run(capsys, "inspect", "g.npz", *given, *goal)
    assert code == 0
    assert "90% interval" in json.loads(said)["graph"]["expected F1 of late"]


@pytest.mark.parametrize("option", ["--metric", "--positive", "--classes", "--source"])
def test_inspect_without_a_model_refuses_what_is_about_one(place, capsys, option):
    code, _, error = run(capsys, "inspect", "g.npz", option, "f1")
    assert code == 2
    assert option in error
    assert "none without --model or --network" in error


def test_questions_about_it_are_asked_and_answered(place, capsys):
    given = (*network(place), "--source", "source.safetensors", "--ask", "20")
    code, _, error = run(capsys, "adapt", "g.npz", "-o", "out", *given)
    assert code == 0, error
    assert not list((place / "out").glob("candidate-*"))
    truth, lines = tiny_graph().y, (place / "out" / "questions.csv").read_text().splitlines()
    nodes = [int(line.split(",")[1]) for line in lines if line[:1].isdigit()]
    for number, some in enumerate((nodes[:12], nodes[12:])):
        answers = [f"{node},{truth[node]}" for node in some]
        path = place / f"answers{number}.csv"
        path.write_text("\n".join(["node,label", *answers]))
        code, said, error = run(capsys, "answer", "out", path)
        assert code == 0, error
    summary = json.loads((place / "out" / "summary.json").read_text())
    assert f"{len(nodes)} answers" in " ".join(said.split())
    assert summary["accuracy_after"] >= summary["accuracy_before"]
    other = GCN(6, 8, num_layers=2, out_channels=3).eval()
    torch.save(other.state_dict(), "net.pt")
    for says in ("a network with other weights than this GCN", "its candidates predict otherwise"):
        code, _, error = run(capsys, "answer", "out", path)
        assert code == 2
        assert says in " ".join(error.split())
        mg.summarise_source(other, tiny_graph(0.8, seed=0)).save("source.safetensors")


def test_a_folder_of_graphs_is_watched(place, capsys):
    (place / "days").mkdir()
    for seed in (1, 2):
        mg.write_graph(tiny_graph(seed=seed), place / "days" / f"2026-05-0{seed}.npz")
    given = ("-o", "out", "--once", *network(place), "--source", "source.safetensors")
    code, said, _ = run(capsys, "watch", "days", *given)
    assert code == 0
    assert "2 graphs in out/watch.csv" in said
    with open(place / "out" / "watch.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["name"] for row in rows] == ["2026-05-01.npz", "2026-05-02.npz"]
    assert all(0 < float(row["accuracy"]) <= 1 for row in rows)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "MODEL: got none; allowed: a model file, or --network"),
        (("--network", "nets"), "--weights: got none"),
        (("--network", "nets", "--weights", "net.pt"), "--network: got nets; allowed: MODULE:"),
        (("--network", "no_such:Net", "--weights", "net.pt"), "No module named 'no_such'"),
        (("--network", "HERE:none", "--weights", "net.pt"), "has no attribute 'none'"),
        (("--network", "HERE:number", "--weights", "net.pt"), "--network: got"),
        (("--network", "HERE:broken", "--weights", "net.pt"), "(ValueError: no such thing)"),
        (("--network", "HERE:make", "--weights", "g.npz"), "got g.npz (no file of torch.save, or"),
        (
            ("--network", "HERE:make", "--weights", "whole.pt"),
            "whole.pt (a pickled torch_geometric.nn.models.basic_gnn.GCN, which is not opened",
        ),
        (("--network", "HERE:make", "--weights", "none.pt"), "none.pt (no such file)"),
        (("--network", "HERE:make", "--weights", "other.pt"), "--weights: got other.pt (Missing"),
        (("--weights", "net.pt"), "--weights: got net.pt; allowed: none without --network"),
    ],
)
def test_what_does_not_work_is_one_line(place, capsys, arguments, says):
    torch.save({"a": torch.ones(1)}, "other.pt")
    torch.save(GCN(6, 8, num_layers=2, out_channels=3), "whole.pt")
    given = [part.replace("HERE", f"{place.name}_nets") for part in arguments]
    code, _, err = run(capsys, "adapt", "g.npz", "-o", "out", *given)
    assert code == 2
    assert says in err
    assert err.count("\n") == 1
    assert "weights_only" not in err


@pytest.mark.parametrize("name", ["state_dict", "model_state_dict"])
def test_a_checkpoint_has_the_state_dict_inside(place, capsys, name):
    weights = torch.load("net.pt", weights_only=True)
    torch.save({"epoch": 3, name: weights, "optimizer": {"state": {}}}, "checkpoint.pt")
    given = ("--source", "source.safetensors", "--network", f"{place.name}_nets:make", "--weights")
    for folder, file in (("plain", "net.pt"), ("inside", "checkpoint.pt")):
        assert run(capsys, "adapt", "g.npz", "-o", folder, *given, file)[0] == 0
    plain, inside = (np.load(place / each / "predictions.npz") for each in ("plain", "inside"))
    np.testing.assert_array_equal(plain["probs_before"], inside["probs_before"])


def test_a_summary_needs_a_model(place, capsys):
    code, _, err = run(capsys, "inspect", "g.npz", "--source", "source.safetensors")
    assert code == 2
    assert "--source: got source.safetensors; allowed: none without --model or --network" in err
