"""The command as a user meets it: each command once from end to end, exit codes, one clear line."""

import csv
import json
import shlex
import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch_geometric.data import HeteroData
from torch_geometric.nn import GCN

import matcha_gnn as mg
from matcha_gnn import cli
from matcha_gnn.cli import demo
from running import run, succeeds

NET = ("--network", "network:net", "--weights", "weights.pt", "--source", "source.safetensors")
TABLES = ("--nodes", "nodes.parquet", "--edges", "edges.parquet", *NET[4:])
DECIDED = {"predictions.npz", "changed.csv", "answer.safetensors", "report.html", "summary.json"}
ASKED = {"questions.csv", "questions.html", "questions.safetensors"}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """What `matcha demo --files` writes."""
    folder = tmp_path_factory.mktemp("files")
    succeeds("demo", "--files", folder, "--json")
    return folder


@pytest.fixture
def place(files, tmp_path, monkeypatch):
    """The same files in a folder of the test's own, which is the current one."""
    for path in files.iterdir():
        if path.is_file():
            (tmp_path / path.name).write_bytes(path.read_bytes())
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "network", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def network():
    net = GCN(32, 32, num_layers=2, out_channels=2)
    net.load_state_dict(torch.load("weights.pt", weights_only=True))
    return net.eval()


def probs_in(folder, name="probs"):
    with np.load(folder / "predictions.npz") as predictions:
        return torch.from_numpy(predictions[name])


def answered(questions, labels, answers):
    """What a person saves who knows the labels."""
    with open(questions, newline="") as file:
        nodes = [int(row["node"]) for row in csv.DictReader(file)]
    lines = [f"{node},{int(labels[node])}" for node in nodes]
    answers.write_text("\n".join(["node,label", *lines]))


@pytest.mark.filterwarnings("ignore:source. taken as it is")
def test_the_next_commands_of_the_demo_do_what_python_does(place, capsys):
    target = mg.read_graph("target.npz")
    for line in demo.NEXT.splitlines():
        arguments = shlex.split(line)[1:]
        if arguments[0] == "answer":
            answered(place / "out" / "questions.csv", target.y, place / "answers.csv")
        code, said, _ = run(capsys, *arguments)
        assert (code, bool(said)) == (0, True), line
    result = mg.adapt(network(), target, source="source.safetensors")
    result.ask(20)
    decided = result.answer("answers.csv")
    assert torch.equal(probs_in(place / "out"), decided.probs)
    assert torch.equal(probs_in(place / "again"), mg.adapt(decided.model, target).probs)
    given = mg.adapt(np.load("probs-target.npy"), target, source="probs.safetensors")
    assert torch.equal(probs_in(place / "out-probs"), given.probs)
    assert {path.name for path in (place / "out").iterdir()} == DECIDED | ASKED
    assert {path.name for path in (place / "out-probs").iterdir()} == DECIDED
    summary = json.loads((place / "out" / "summary.json").read_text())
    assert summary["chosen"] == decided.chosen
    assert summary["answers"]["answered"] == 20
    assert summary["accuracy_after"] == mg.metrics.accuracy(decided.probs, target.y)
    assert summary["command"] == "matcha answer out answers.csv"


def test_estimate_is_that_of_python_and_takes_either_order(place, capsys):
    code, said, _ = run(capsys, "estimate", "target.npz", *NET, "--json")
    expected = mg.estimate(network(), mg.read_graph("target.npz"), source="source.safetensors")
    assert (code, json.loads(said)["estimate"]) == (0, expected.to_dict())
    assert json.loads(said)["shift"]["advice"] == "adapt"
    model = mg.GPRGNN(32, 2, K=2)
    mg.fit(model, mg.read_graph("source.npz"), epochs=5)
    mg.save_model(model, "model.safetensors")
    both = [("model.safetensors", "target.npz"), ("target.npz", "model.safetensors")]
    assert len({run(capsys, "estimate", *order)[1] for order in both}) == 1


def test_a_strategy_is_python_text(place, capsys):
    model, target = mg.GPRGNN(32, 2, K=2), mg.read_graph("target.npz")
    mg.fit(model, mg.read_graph("source.npz"), epochs=5)
    mg.save_model(model, "model.safetensors")
    text = "Matcha(T3A(k=20), loss=mg.Entropy(), rounds=2, lr=0.1, seed=3)"
    given = ("adapt", "model.safetensors", "target.npz", "-o", "out", "--json", "--strategy")
    code, said, _ = run(capsys, *given, text)
    strategy = mg.Matcha(mg.T3A(k=20), loss=mg.Entropy(), rounds=2, lr=0.1, seed=3)
    expected = mg.adapt(model, target, strategy=strategy)
    summary = json.loads(said)
    assert code == 0
    assert {name: summary[name] for name in expected.configuration()} == expected.configuration()
    assert [row["round"] for row in summary["trace"]] == [0, 1, 2]
    assert torch.equal(probs_in(place / "out"), expected.probs)
    assert torch.equal(mg.load_model("out/answer.safetensors").gamma, expected.gamma)
    assert run(capsys, *given, "t3a", "--force")[0] == 0
    assert torch.equal(probs_in(place / "out"), mg.adapt(model, target, strategy=mg.T3A()).probs)


def test_an_installed_package_brings_a_method(place, capsys, monkeypatch):
    facts = place / "site" / "other_package-1.0.dist-info"
    facts.mkdir(parents=True)
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: other-package\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text(
        "[matcha_gnn.methods]\nplain = other_package:Plain\nbroken = other_package:Nothing\n"
    )
    (place / "site" / "other_package.py").write_text(
        "import matcha_gnn as mg\nclass Plain(mg.ERM):\n    name = 'plain'\n"
    )
    monkeypatch.syspath_prepend(place / "site")
    given = ("adapt", "target.npz", *NET, "-o", "out", "--json", "--force", "--strategy")
    for text in ("plain", "Plain()", "Matcha(plain, rounds=1)"):
        code, said, _ = run(capsys, *given, text)
        assert (code, json.loads(said)["method"]) == (0, "plain")
    assert "other_package:Nothing cannot be imported" in run(capsys, *given, "broken")[2]
    sys.modules.pop("other_package", None)


def test_tables_take_names_of_columns_and_labelled_questions(place, capsys):
    target = mg.read_graph("target.npz")
    with torch.no_grad():
        probs = network()(target.x, target.edge_index).softmax(1)
    src, dst = target.edge_index.numpy()
    pq.write_table(pa.table({"src": src, "dst": dst}), "edges.parquet")
    for name, scale in (("nodes", 1), ("broken", 100)):
        rows = {"name": range(2000), "f": list(scale * target.x.numpy()), "p": list(probs.numpy())}
        pq.write_table(pa.table(rows), f"{name}.parquet")
    named = (*TABLES, "--id", "name", "--features", "f", "--probs", "p", "--json")
    code, said, _ = run(capsys, "adapt", *named, "-o", "out", "--ask", 6)
    assert (code, json.loads(said)["nodes"]) == (0, 2000)
    asked = pd.read_csv("out/questions.csv")
    asked["label"] = target.y[asked["id"].to_numpy()].numpy()
    asked.to_csv("answers.csv", index=False)
    again = ("adapt", *named, "-o", "out", "--force", "--answers", "answers.csv")
    assert run(capsys, *again)[0] == 0
    page = (place / "out" / "report.html").read_text()
    assert "decided by 6 answers" in page
    found = json.loads(run(capsys, "estimate", *named)[1])
    assert found["low"] < found["value"] < found["high"]
    given = ["broken.parquet" if each == "nodes.parquet" else each for each in named]
    code, said, _ = run(capsys, "adapt", *given, "-o", "other")
    assert (code, json.loads(said)["broken"]) == (3, True)


def test_broken_features_exit_with_3_and_write_all_files(place, capsys):
    graph = mg.read_graph("target.npz")
    graph.x = 100 * graph.x
    mg.write_graph(graph, "broken.npz")
    code, said, _ = run(capsys, "adapt", "broken.npz", *NET, "-o", "out", "--json")
    assert (code, json.loads(said)["severity"], json.loads(said)["broken"]) == (3, "alarm", True)
    assert {path.name for path in (place / "out").iterdir()} == DECIDED
    assert run(capsys, "estimate", "broken.npz", *NET)[0] == 3


def test_answers_add_up_are_never_lost_and_need_no_graph(place, capsys):
    target = mg.read_graph("target.npz")
    table = (f"user {node},{node % 7}" for node in range(2000))
    (place / "table.csv").write_text("\n".join(["name,group", *table]))
    first = ("adapt", "target.npz", *NET, "-o", "out", "--ask", 6, "--table", "table.csv")
    assert run(capsys, *first, "--json")[0] == 0
    asked = pd.read_csv("out/questions.csv")
    assert (asked["name"] == "user " + asked["node"].astype(str)).all()
    assert (asked["group"] == asked["node"] % 7).all()
    answered("out/questions.csv", target.y, place / "first.csv")
    (place / "target.npz").unlink()
    code, said, complaint = run(capsys, "answer", "out", "first.csv", "--json")
    assert (code, json.loads(said)["answers"]["answered"]) == (0, 6)
    assert complaint.startswith("no page and no scores: graph: got ")
    assert not (place / "out" / "report.html").exists()
    mg.write_graph(target, "moved.npz")
    more = ("answer", "out", "first.csv", "--ask", 4, "--json")
    assert run(capsys, *more)[0] == 2
    assert run(capsys, *more, "--graph", "source.npz")[0] == 2
    assert run(capsys, *more, "--graph", "moved.npz")[0] == 0
    answered("out/questions.csv", target.y, place / "second.csv")
    code, said, _ = run(capsys, "answer", "out", "second.csv", "--json")
    assert (code, json.loads(said)["answers"]["answered"]) == (0, 10)
    typed = (place / "second.csv").read_text()
    (place / "out" / "questions.csv").write_text(typed)
    again = ("adapt", "moved.npz", *NET, "-o", "out", "--json")
    assert run(capsys, *again)[0] == 2
    code, _, complaint = run(capsys, *again, "--force")
    assert (code, "are kept as out/questions-answered.csv" in complaint) == (0, True)
    assert (place / "out" / "questions-answered.csv").read_text() == typed
    assert not (place / "out" / "questions.safetensors").exists()


def test_the_demo_speaks_before_it_works_and_writes_its_own_folder_again(place, capsys):
    for _ in range(2):
        code, said, progress = run(capsys, "demo")
        assert (code, "adapted" in said) == (0, True)
        assert progress.splitlines()[:2] == ["loading PyTorch …", "drawing two graphs …"]
    assert {path.name for path in (place / "matcha-demo").iterdir()} == DECIDED | {
        "source.safetensors"
    }
    (place / "matcha-demo" / "questions.csv").write_text("node,label\n1,0\n")
    code, _, said = run(capsys, "demo", "--json")
    assert (code, "(not empty); allowed: a new or an empty folder, or --force" in said) == (2, True)


def adapt(*options):
    return ("adapt", "target.npz", "-o", "out", *options)


BAD = {
    "MODEL: got none; allowed: a model file, --network MODULE:NAME": adapt(),
    "--weights: got none": adapt("--network", "network:net"),
    "--weights: got weights.pt; allowed: none without": adapt("--weights", "weights.pt"),
    "--network: got net; allowed: MODULE:NAME": adapt(*NET[2:], "--network", "net"),
    "No module named 'nowhere'": adapt(*NET[2:], "--network", "nowhere:net"),
    "(no file of torch.save, or": adapt(*NET[:3], "target.npz"),
    "(a pickled torch_geometric.nn.models.basic_gnn.GCN": adapt(*NET[:3], "whole.pt"),
    "other.pt (Missing key(s)": adapt(*NET[:3], "other.pt"),
    "--probs: got probs-target.npy; allowed: none beside": adapt(
        *NET, "--probs", "probs-target.npy"
    ),
    "--logits: got it; allowed: none without --probs": adapt(*NET, "--logits"),
    "--probs: got text.csv (": adapt("--probs", "text.csv"),
    "--probs: got target.npz (no array probs": adapt("--probs", "target.npz"),
    "model: got shape [2000, 1]; allowed: [2000, C]": adapt("--probs", "narrow.npy"),
    "graph: got none.npz (no such file)": ("estimate", "none.npz", *NET),
    "hetero.pt (a HeteroData": ("estimate", "hetero.pt", *NET),
    "--strategy: got 't3b' (did you mean t3a?); allowed: adanpc": adapt(*NET, "--strategy", "t3b"),
    "--strategy: got 'round'; allowed: features": adapt(*NET, "--strategy", "Matcha(round=1)"),
    "rounds: got 0": adapt(*NET, "--strategy", "Matcha(rounds=0)"),
    "allowed: a strategy or a base method": adapt(*NET, "--strategy", "PIC()"),
    "allowed: a name, or a call with": adapt(*NET, "--strategy", "Matcha(rounds=max(1, 2))"[:-1]),
    "--strategy: got 'max'": adapt(*NET, "--strategy", "Matcha(rounds=max(1, 2))"),
    "--ask: got 3; allowed: none with": adapt(*NET, "--ask", "3", "--strategy", "t3a"),
    "--table: got t.csv; allowed: none without": adapt(*NET, "--table", "t.csv"),
    "text.csv (1 lines); allowed: a line for each of 2000": adapt(
        *NET, "--ask", "3", "--table", "text.csv"
    ),
    "line 2: node 'x'; allowed: nodes 0 to 1999": adapt(*NET, "--ask", "3", "--table", "nodes.csv"),
    "metric: got 'roc'; allowed: accuracy": adapt(*NET, "--metric", "roc"),
    "classes: got ('a',)": adapt(*NET, "--classes", "a"),
    "--device: got 'tpu9'": adapt(*NET, "--device", "tpu9"),
    "--id: got name; allowed: none without --nodes and --edges": adapt(*NET, "--id", "name"),
    "--nodes, --edges: got one of them": ("estimate", "--nodes", "n.parquet"),
    "--metric: got f1; allowed: none with --nodes": ("estimate", *TABLES, "--metric", "f1"),
    "No such option: --epochs": adapt("--epochs", "3"),
    "No such command 'frob'": ("frob",),
    "a file named .safetensors": ("summarise", "source.npz", "-o", "s.npz", *NET[:4]),
    "trained: got 3 indices": (
        "summarise",
        "source.npz",
        "-o",
        "s.safetensors",
        *NET[:4],
        "--trained",
        "n.npy",
        "--json",
    ),
    "(no questions.safetensors)": ("answer", ".", "text.csv"),
}


@pytest.mark.parametrize("says", BAD)
def test_a_bad_call_is_one_line_exit_2_and_no_file(says, place, capsys):
    torch.save(network(), "whole.pt")
    torch.save({"a": torch.ones(1)}, "other.pt")
    hetero = HeteroData({"a": {"x": torch.ones(2, 2)}})
    torch.save(hetero, "hetero.pt")
    np.save("narrow.npy", np.ones((2000, 1), np.float32))
    np.save("n.npy", np.array([1, 1, 2]))
    (place / "text.csv").write_text("a,b\nx,y\n")
    (place / "nodes.csv").write_text("node,b\nx,y\n")
    code, said, complaint = run(capsys, *BAD[says])
    assert (code, said, complaint.count("\n")) == (2, "", 1)
    assert complaint.startswith("matcha: ")
    assert says in complaint
    assert not (place / "out").exists() or not any((place / "out").iterdir())


def test_help_answers_without_torch_and_a_full_disk_is_one_line(place):
    code = "import sys\nfrom matcha_gnn import cli\ntry:\n    cli.main(['--help'])\nfinally:\n    "
    done = subprocess.run(
        [sys.executable, "-c", code + "assert 'torch' not in sys.modules"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0
    for command in ("demo", "summarise", "estimate", "adapt", "answer", "watch"):
        assert f"\n  {command} " in done.stdout
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "matcha_gnn", "--version"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (2, "matcha: No space left on device\n")


def test_our_faults_are_not_called_the_users(place, monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("ours")

    monkeypatch.setattr(mg, "read_graph", broken)
    with pytest.raises(RuntimeError, match="ours"):
        cli.main(["estimate", "target.npz", *NET])
