"""The command as a user meets it: real processes, real files, exit codes, one clear line."""

import csv
import json
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console
from safetensors.torch import save_file
from torch_geometric.data import HeteroData

import matcha_gnn as mg
from matcha_gnn.cli import commands, console
from matcha_gnn.cli.commands import print_summary
from matcha_gnn.gamma.strategies import STRATEGIES
from matcha_gnn.gamma.testing import tiny_graph, trained_model
from matcha_gnn.io import models
from running import run


@pytest.fixture
def files(tmp_path):
    mg.write_graph(tiny_graph(), tmp_path / "g.npz")
    mg.save_model(trained_model(), tmp_path / "m.safetensors")
    return tmp_path


def test_adapt_writes_the_promised_files(files, capsys):
    out = files / "out"
    code, said, _ = run(
        capsys,
        *("adapt", files / "m.safetensors", files / "g.npz", "-o", out),
        *("--strategy", "matcha", "--set", "rounds=3"),
    )
    assert code == 0
    assert "accuracy" in said
    names = {"predictions.npz", "model.safetensors", "history.csv", "summary.json", "report.html"}
    names |= {"changed.csv"}
    assert {p.name for p in out.iterdir()} == names
    expected = mg.adapt(trained_model(), tiny_graph(), strategy=mg.Matcha(rounds=3))
    with np.load(out / "predictions.npz") as predictions:
        np.testing.assert_array_equal(predictions["probs"], expected.probs)
        np.testing.assert_array_equal(predictions["labels"], expected.labels)
        np.testing.assert_array_equal(predictions["probs_before"], expected.probs_before)
        np.testing.assert_array_equal(predictions["labels_before"], expected.labels_before)
        np.testing.assert_array_equal(predictions["ids"], np.arange(len(expected.labels)))
    torch.testing.assert_close(mg.load_model(out / "model.safetensors").gamma.data, expected.gamma)
    with open(out / "history.csv") as file:
        assert [row["round"] for row in csv.DictReader(file)] == ["0", "1", "2", "3"]
    summary = json.loads((out / "summary.json").read_text())
    wanted = {"status", "method", "strategy", "seed", "pic_before", "pic_after", "gamma_before"}
    wanted |= {"gamma_after", "accuracy_before", "accuracy_after", "seconds", "versions"}
    assert wanted <= set(summary)
    assert {name: summary[name] for name in expected.configuration()} == expected.configuration()
    assert (summary["strategy"], summary["strategy_version"]) == ("matcha", mg.Matcha.version)
    assert summary["strategy_parameters"]["rounds"] == 3
    assert summary["strategy_parameters"]["loss"]["name"] == "pic"
    assert summary["accuracy_after"] == mg.metrics.accuracy(expected.probs, tiny_graph().y)


def test_json_on_standard_output_is_the_summary(files, capsys):
    arguments = ["adapt", files / "m.safetensors", files / "g.npz", "-o", files / "out", "--json"]
    code, said, _ = run(capsys, *arguments)
    assert code == 0
    assert json.loads(said) == json.loads((files / "out" / "summary.json").read_text())


def test_without_labels_accuracy_is_null(files, capsys):
    graph = tiny_graph()
    del graph.y
    mg.write_graph(graph, files / "bare.npz")
    arguments = ["adapt", files / "m.safetensors", files / "bare.npz", "-o", files / "o", "--json"]
    code, said, _ = run(capsys, *arguments)
    assert code == 0
    assert json.loads(said)["accuracy_before"] is None
    assert json.loads(said)["accuracy_after"] is None


def test_a_test_mask_decides_which_nodes_accuracy_counts(files, capsys):
    graph = tiny_graph()
    graph.test_mask = torch.arange(120) < 40
    mg.write_graph(graph, files / "masked.npz")
    arguments = ["adapt", files / "m.safetensors", files / "masked.npz", "-o", files / "o"]
    _, said, _ = run(capsys, *arguments, "--json")
    expected = mg.adapt(trained_model(), graph)
    score = mg.metrics.accuracy(expected.probs, graph.y, graph.test_mask)
    assert json.loads(said)["accuracy_after"] == score


def test_make_graph_train_inspect_and_adapt_in_a_row(tmp_path, capsys):
    graph, model = tmp_path / "g.npz", tmp_path / "m.safetensors"
    sizes = ["--nodes", 300, "--features", 20, "--shares", "0.2,0.3,0.5", "--degree", 4]
    assert run(capsys, "make-graph", "csbm", "-o", graph, *sizes)[0] == 0
    assert mg.read_graph(graph).num_nodes == 300
    training = ["--epochs", 20, "--hops", 2, "--hidden", 4, "--train-fraction", 0.5]
    assert run(capsys, "train", graph, "-o", model, *training)[0] == 0
    loaded = mg.load_model(model)
    assert (loaded.num_hops, loaded.head.weight.shape) == (2, (3, 4))
    code, said, _ = run(capsys, "inspect", graph, "--model", model, "--json")
    assert code == 0
    facts = json.loads(said)
    assert facts["graph"]["nodes"] == 300
    assert facts["source"]["edge homophily"] == pytest.approx(0.8, abs=0.1)
    estimate = mg.estimate_accuracy(loaded, mg.read_graph(graph))
    bounds = f"(90% interval {estimate.low:.3f} to {estimate.high:.3f})"
    assert facts["graph"]["expected accuracy"] == f"{estimate.value:.3f} {bounds}"
    assert len(facts["graph"]["expected accuracy per class"].split(", ")) == 3
    code, said, _ = run(capsys, "inspect", graph)
    assert code == 0
    assert "average degree" in said
    assert run(capsys, "adapt", model, graph, "-o", tmp_path / "o")[0] == 0


def test_methods_that_need_something_of_the_source_get_it(files, capsys):
    graph, model = files / "g.npz", files / "prepared.safetensors"
    training = ["--epochs", 5, "--hops", 2, "--hidden", 4]
    training += ["--method", "adanpc", "--method", "graphpatcher"]
    assert run(capsys, "train", graph, "-o", model, *training)[0] == 0
    for method in ("adanpc", "graphpatcher"):
        arguments = ["adapt", model, graph, "-o", files / method, "--method", method]
        assert run(capsys, *arguments, "--strategy", "matcha", "--set", "rounds=2")[0] == 0
        summary = json.loads((files / method / "summary.json").read_text())
        assert summary["method"] == method


@pytest.mark.parametrize(
    ("backbone", "entries"), [("gprgnn", 10), ("appnp", 1), ("jknet", 2), ("gcnii", 4)]
)
def test_every_backbone_is_trained_adapted_and_written(backbone, entries, files, capsys):
    model, out = files / "new.safetensors", files / "out"
    training = ("--backbone", backbone, "--hidden", 8, "--epochs", 5, "--json")
    code, said, _ = run(capsys, "train", files / "g.npz", "-o", model, *training)
    assert code == 0
    assert len(json.loads(said)["gamma"]) == entries
    rounds = ("--strategy", "matcha", "--set", "rounds=2")
    code, _, _ = run(capsys, "adapt", model, files / "g.npz", "-o", out, *rounds)
    assert code == 0
    kind, adapted = type(mg.load_model(model)), mg.load_model(out / "model.safetensors")
    assert kind.__name__.lower() == backbone
    assert isinstance(adapted, kind)
    assert not torch.equal(adapted.gamma, mg.load_model(model).gamma)


def test_inspect_takes_the_model_as_adapt_does(files, capsys):
    model, graph = files / "m.safetensors", files / "g.npz"
    said = [
        run(capsys, "inspect", *given, "--json")
        for given in ((graph, "--model", model), (model, graph), (graph, model))
    ]
    assert said[0][0] == 0
    assert "source" in said[0][1]
    assert said == 3 * [said[0]]
    code, _, complaint = run(capsys, "inspect", model, graph, "--model", model)
    assert (code, "--model: got" in complaint) == (2, True)


def test_a_folder_that_is_not_empty_is_not_replaced_in_silence(files, capsys, monkeypatch):
    out = files / "out"
    out.mkdir()
    (out / "notes.txt").write_text("mine")
    given = ("adapt", files / "m.safetensors", files / "g.npz", "-o", out, "--json")
    with monkeypatch.context() as before_any_work:
        before_any_work.setattr("matcha_gnn.cli.commands.read_graph", pytest.fail)
        before_any_work.setattr("matcha_gnn.cli.commands.csbm", pytest.fail)
        for command in (given, ("demo", "-o", out)):
            code, _, complaint = run(capsys, *command)
            assert code == 2
            assert complaint.splitlines()[-1] == (
                f"matcha: output folder: got {out} (not empty); allowed: a new or an empty folder, "
                "or --force to replace the files of an earlier run"
            )
    assert run(capsys, *given, "--force")[0] == 0
    assert (out / "notes.txt").read_text() == "mine"
    assert (out / "summary.json").exists()


def test_demo_speaks_before_it_works_and_writes_its_own_folder_again(tmp_path, capsys, monkeypatch):
    """The demo on graphs of which it is done in a second."""
    monkeypatch.chdir(tmp_path)
    draw = commands.csbm
    small = lambda nodes, features, **law: draw(300, 20, **law)  # noqa: E731
    monkeypatch.setattr("matcha_gnn.cli.commands.csbm", small)
    monkeypatch.setattr("matcha_gnn.cli.commands.GPRGNN", lambda *sizes: mg.GPRGNN(20, 2))
    for _ in range(2):
        code, _, said = run(capsys, "demo")
        assert code == 0
        assert said.splitlines()[:2] == ["loading PyTorch …", "drawing two graphs …"]
    assert run(capsys, "demo", "--json", "--force")[2] == ""
    (tmp_path / "matcha-demo" / "questions.csv").write_text("node,label\n1,0\n")
    code, _, said = run(capsys, "demo")
    assert (code, "(not empty)" in said) == (2, True)


def test_train_fraction_takes_its_share_of_each_class():
    from matcha_gnn.cli.commands import _stratified

    labels = torch.tensor([0] * 100 + [1] * 50 + [2] * 2)
    mask = _stratified(labels, 0.2, seed=0)
    assert torch.bincount(labels[mask]).tolist() == [20, 10, 1]


def write_pickle(path: Path) -> None:
    path.write_bytes(pickle.dumps({"x": [1, 2]}))


def broken_graph(path: Path, **changes) -> Path:
    arrays = {"x": np.ones((4, 6), np.float32), "edge_index": np.array([[0, 1], [1, 2]])}
    np.savez(path, **(arrays | changes))
    return path


BAD_GRAPHS = {
    "edge index out of range": ({"edge_index": np.array([[0], [4]])}, "graph.edge_index: got node"),
    "negative edge index": ({"edge_index": np.array([[0], [-1]])}, "graph.edge_index: got node"),
    "float edge index": ({"edge_index": np.array([[0.0], [1.0]])}, "graph.edge_index: got torch.f"),
    "edge index of wrong shape": ({"edge_index": np.array([0, 1])}, "graph.edge_index: got shape"),
    "NaN": ({"x": np.full((4, 6), np.nan, np.float32)}, "graph.x: got 24 NaN"),
    "infinite": ({"x": np.full((4, 6), np.inf, np.float32)}, "graph.x: got 24 NaN or inf"),
    "wrong width": ({"x": np.ones((4, 5), np.float32)}, "graph.x: got 5 features; allowed: 6"),
    "zero nodes": (
        {"x": np.ones((0, 6), np.float32), "edge_index": np.empty((2, 0), np.int64)},
        "graph.x: got shape [0, 6]",
    ),
}


def assert_refused(result, says, folder):
    code, out, err = result
    assert code == 2
    assert says in err
    assert err.startswith("matcha: ")
    assert err.count("\n") == 1
    assert out == ""
    assert not any(p.name in ("out", "new.safetensors") and p.is_file() for p in folder.iterdir())
    assert not (folder / "out").exists() or not any((folder / "out").iterdir())


@pytest.mark.parametrize("name", BAD_GRAPHS)
def test_bad_graphs_get_one_line_and_exit_code_2(name, files, capsys):
    changes, says = BAD_GRAPHS[name]
    graph = broken_graph(files / "bad.npz", **changes)
    result = run(capsys, "adapt", files / "m.safetensors", graph, "-o", files / "out")
    assert_refused(result, says, files)


def test_bad_files_and_names_get_one_line_and_exit_code_2(files, capsys):
    model, graph, out = files / "m.safetensors", files / "g.npz", files / "out"
    write_pickle(files / "p.npz")
    save_file({"a": torch.ones(1)}, files / "foreign.safetensors")
    hetero = HeteroData({"a": {"x": torch.ones(2, 2)}, "b": {"x": torch.ones(1, 3)}})
    hetero["a", "to", "b"].edge_index = torch.tensor([[0, 1], [0, 0]])
    torch.save(hetero, files / "hetero.pt")
    other = {"backbone": "transformer", "config": "{}"}
    models.FORMAT.write(files / "other.safetensors", {"a": torch.ones(1)}, other)
    (files / "a-file").write_text("")
    cases = {
        "graph: got": ["adapt", model, files / "none.npz", "-o", out],
        "no such file": ["adapt", files / "none.safetensors", graph, "-o", out],
        "not a plain array file": ["adapt", model, files / "p.npz", "-o", out],
        "hetero.pt (a HeteroData: several node types are not supported); allowed: one Data: "
        "data.to_homogeneous() makes it": ["inspect", files / "hetero.pt"],
        "no format": ["adapt", files / "foreign.safetensors", graph, "-o", out],
        "architecture 'transformer'": ["adapt", files / "other.safetensors", graph, "-o", out],
        "not a safetensors file": ["adapt", files / "g.npz", graph, "-o", out],
        "--method: got 'em' (did you mean erm?); "
        "allowed: adanpc, erm, graphpatcher, gtrans, lame, soga, t3a, tent": [
            *("adapt", model, graph, "-o", out, "--method", "em")
        ],
        "--device: got 'tpu9'": ["adapt", model, graph, "-o", out, "--device", "tpu9"],
        "output folder: got": ["adapt", model, graph, "-o", files / "a-file" / "sub"],
        "--backbone: got 'gcn'": [
            *("train", graph, "-o", files / "new.safetensors", "--backbone", "gcn")
        ],
        "a file named .safetensors": ["train", graph, "-o", files / "new.pt"],
        "No such file or directory": ["train", graph, "-o", files / "nowhere" / "new.safetensors"],
        "--method: got 'memory'": [
            *("train", graph, "-o", files / "new.safetensors", "--method", "memory")
        ],
        "methods=[GraphPatcher()]": ["adapt", model, graph, "-o", out, "--method", "graphpatcher"],
        "--train-fraction: got 2.0": [
            *("train", graph, "-o", files / "new.safetensors", "--train-fraction", "2")
        ],
        "NAME: got 'sbm'": ["make-graph", "sbm", "-o", files / "new.npz"],
        "homophily: got 1.5": [
            *("make-graph", "csbm", "-o", files / "new.npz", "--homophily", "1.5")
        ],
        "--shares: got a,b": ["make-graph", "csbm", "-o", files / "new.npz", "--shares", "a,b"],
        "name: got 'table9'": ["reproduce", "table9"],
        "nothing there": ["reproduce", "table1", "--show", "--results", files / "none"],
        "No such command 'frob'": ["frob"],
        "Missing argument": ["adapt"],
    }
    for says, arguments in cases.items():
        result = run(capsys, *arguments)
        assert_refused(result, says, files)


def test_help_names_every_command(capsys):
    code, said, _ = run(capsys)
    assert code == 0
    for command in ("demo", "train", "adapt", "inspect", "make-graph", "reproduce"):
        assert command in said


def test_version(capsys):
    assert run(capsys, "--version")[1].strip() == f"matcha {mg.__version__}"


def test_the_installed_command_runs_and_is_quiet_without_a_terminal(files):
    command = [Path(sys.executable).parent / "matcha", "adapt", "m.safetensors", "g.npz"]
    done = subprocess.run([*command, "-o", "out"], cwd=files, capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stderr == ""
    assert "\x1b" not in done.stdout


def test_our_own_faults_exit_with_1(files):
    code = (
        "import matcha_gnn.cli.inspection as c, matcha_gnn.cli as cli\n"
        "def broken(*a, **k): raise RuntimeError('ours')\n"
        "c.inspect = broken\n"
        "cli.main(['inspect', 'g.npz'])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=files, capture_output=True, text=True)
    assert done.returncode == 1
    assert "RuntimeError: ours" in done.stderr


def test_json_has_null_where_there_is_no_number(tmp_path, capsys):
    graph = tiny_graph()
    graph.edge_index = graph.edge_index[:, :0]
    mg.write_graph(graph, tmp_path / "g.npz")
    code, said, _ = run(capsys, "inspect", tmp_path / "g.npz", "--json")
    assert code == 0
    assert json.loads(said, parse_constant=pytest.fail)["graph"]["edge homophily"] is None


def test_options_of_a_base_method(files, capsys):
    arguments = ["adapt", files / "m.safetensors", files / "g.npz", "--method", "t3a"]
    arguments += ["-o", files / "options"]
    assert run(capsys, *arguments, "--option", "k=-1", "--option", "scale=model")[0] == 0
    summary = json.loads((files / "options" / "summary.json").read_text())
    assert summary["method_parameters"]["k"] == -1
    assert summary["method_parameters"]["scale"] == "model"
    arguments += ["--force"]
    for option, says in (
        ("z=1", "--option: got 'z'; allowed: k, scale"),
        ("k", "--option: got 'k'; allowed: KEY=VALUE"),
        ("k=0", "k: got 0"),
    ):
        code, _, said = run(capsys, *arguments, "--option", option)
        assert code == 2
        assert says in said


def test_parameters_of_a_strategy(files, capsys):
    arguments = ["adapt", files / "m.safetensors", files / "g.npz", "--method", "tent"]
    arguments += ["--strategy", "matcha"]
    given = {"rounds": 4, "lr": 0.1, "optimizer": "adam", "restart": "false", "loss": "entropy"}
    options = [each for name, value in given.items() for each in ("--set", f"{name}={value}")]
    code, said, _ = run(capsys, *arguments, *options, "-o", files / "out", "--json")
    assert code == 0
    strategy = mg.Matcha(mg.Entropy(), lr=0.1, rounds=4, optimizer="adam", restart=False)
    assert json.loads(said)["strategy_parameters"] == strategy.parameters()
    expected = mg.adapt(trained_model(), tiny_graph(), mg.Tent(), strategy)
    with np.load(files / "out" / "predictions.npz") as predictions:
        np.testing.assert_array_equal(predictions["probs"], expected.probs)


@pytest.mark.parametrize("name", ["guarded", "matcha", "closed_form", "fitted", "none"])
def test_every_strategy_by_its_name(name, files, capsys):
    arguments = ["adapt", files / "m.safetensors", files / "g.npz", "--strategy", name]
    code, said, _ = run(capsys, *arguments, "-o", files / "out", "--json")
    assert code == 0
    assert json.loads(said)["strategy"] == name
    strategy = {"none": mg.Unadapted} | STRATEGIES
    expected = mg.adapt(trained_model(), tiny_graph(), strategy=strategy[name]())
    with np.load(files / "out" / "predictions.npz") as predictions:
        np.testing.assert_array_equal(predictions["probs"], expected.probs)


BAD_STRATEGIES = {
    "--strategy: got 'macha' (did you mean matcha?); "
    "allowed: belief, closed_form, fitted, guarded, matcha, none": ["--strategy", "macha"],
    "--set: got 'epochs'; allowed: features, loss, lr, moves, optimizer, restart, rounds": [
        *("--strategy", "matcha", "--set", "epochs=3")
    ],
    "--set: got 'min_gain'; allowed: nothing: it has no options": [
        *("--strategy", "fitted", "--set", "min_gain=0.1")
    ],
    "--set: got 'rounds'; allowed: KEY=VALUE": ["--strategy", "matcha", "--set", "rounds"],
    "rounds: got 0; allowed: ": ["--strategy", "matcha", "--set", "rounds=0"],
    "rounds: got 'many'; allowed: ": ["--strategy", "matcha", "--set", "rounds=many"],
    "lr: got -1; allowed: ": ["--strategy", "matcha", "--set", "lr=-1"],
    "optimizer: got 'x'; allowed: sgd, adam": ["--strategy", "matcha", "--set", "optimizer=x"],
    "optimizer: got []; allowed: sgd, adam": ["--strategy", "matcha", "--set", "optimizer=[]"],
    "--set loss: got 'x'; allowed: difference, entropy, pic, pseudo_label, sure": [
        *("--strategy", "matcha", "--set", "loss=x")
    ],
    "--set: got 'loss'; allowed: min_gain, of_error": ["--set", "loss=pic"],
    "min_gain: got 2; allowed: a number < 1, as accuracy is a share": ["--set", "min_gain=2"],
    "metric: got 'roc'; allowed: accuracy, ": ["--metric", "roc"],
    "positive: got '1'; allowed: none, unless metric is f1": ["--positive", "1"],
    "positive: got 'spam'; allowed: the class that f1 is of: ": [
        *("--metric", "f1", "--positive", "spam")
    ],
    "classes: got ('a',); allowed: 3 different names": ["--classes", "a"],
    "--set strategies: got ": ["--set", 'strategies=["matcha"]'],
    "No such option: --epochs": ["--epochs", "3"],
    "seed: got -1; allowed: ": ["--seed", "-1"],
    "loss 'pseudo_label' has no minimum": [
        *("--strategy", "closed_form", "--set", "loss=pseudo_label")
    ],
}


@pytest.mark.parametrize("says", BAD_STRATEGIES)
def test_bad_strategies_and_parameters_get_one_line_and_exit_code_2(says, files, capsys):
    arguments = ["adapt", files / "m.safetensors", files / "g.npz", "-o", files / "out"]
    assert_refused(run(capsys, *arguments, *BAD_STRATEGIES[says]), says, files)


def test_by_default_the_decision_is_printed_and_written(files, capsys):
    out = files / "out"
    code, said, _ = run(capsys, "adapt", files / "m.safetensors", files / "g.npz", "-o", out)
    assert code == 0
    expected = mg.adapt(trained_model(), tiny_graph())
    summary = json.loads((out / "summary.json").read_text())
    assert summary["meaning"] == expected.decision.summary()
    assert [one["name"] for one in summary["candidates"]][0] == "source"
    assert " ".join(expected.decision.summary().split()) in " ".join(said.split())
    assert "report.html" in "".join(said.split())


def test_records_are_shown_as_a_page_where_one_is_asked_for(tmp_path, capsys):
    records = Path(__file__).parents[2] / "results"
    pages = tmp_path / "pages"
    show = ("reproduce", "architectures", "--show", "--results", records)
    code, said, _ = run(capsys, *show, "-o", pages)
    assert code == 0
    assert "architectures.html" in "".join(said.split())
    assert "<table" in (pages / "architectures.html").read_text()


def test_a_jump_of_class_shares_is_printed_in_red_and_written(tmp_path, capsys, monkeypatch):
    """The published algorithm on accounts of which one in twenty is of the rare class."""
    fraud = {"signal": 2.5, "shares": (0.95, 0.05)}
    model = mg.GPRGNN(32, 2)
    mg.fit(model, mg.datasets.csbm(1500, 32, homophily=0.95, **fraud, seed=0), epochs=100)
    mg.save_model(model, tmp_path / "m.safetensors")
    graph = mg.datasets.csbm(1500, 32, homophily=0.92, **fraud, seed=1)
    mg.write_graph(graph, tmp_path / "g.npz")
    monkeypatch.setattr(console, "out", Console(force_terminal=True, width=400))
    arguments = ["adapt", tmp_path / "m.safetensors", tmp_path / "g.npz", "-o", tmp_path / "out"]
    options = ["--strategy", "matcha", "--set", "loss=pic", "--set", "rounds=100"]
    code, said, _ = run(capsys, *arguments, *options)
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert code == 0
    assert summary["accuracy_before"] - summary["accuracy_after"] > 0.8
    assert summary["severity"] == "alarm"
    (alarm,) = summary["alarms"]
    assert "Predicted class shares moved by" in alarm
    assert "ALARM" in said
    assert f"\x1b[1;31m{alarm}" in said


def test_what_an_outcome_means_is_printed_as_it_is(capsys):
    summary = {
        **dict.fromkeys(("accuracy_before", "accuracy_after", "metric_before", "expected_before")),
        **{"pic_before": 0.8, "pic_after": 0.9, "gamma_before": [1.0], "gamma_after": [0.5]},
        **{"method": "erm", "status": "stopped", "severity": "alarm", "labels_changed": 0.9},
        "meaning": "class [bold]1[/bold] has none",
        "score_remarks": ["2 of 5 labels [-1] were not scored"],
    }
    print_summary(summary)
    said = capsys.readouterr().out
    assert summary["meaning"] in said
    assert summary["score_remarks"][0] in said


def test_a_metric_and_names_of_classes_from_the_command(files, capsys):
    arguments = ["adapt", files / "m.safetensors", files / "g.npz", "-o", files / "out"]
    options = ["--metric", "f1", "--positive", "spam", "--classes", "ham, eggs, spam"]
    code, said, _ = run(capsys, *arguments, *options)
    assert code == 0
    names = ("ham", "eggs", "spam")
    expected = mg.adapt(trained_model(), tiny_graph(), metric="f1", positive="spam", classes=names)
    summary = json.loads((files / "out" / "summary.json").read_text())
    assert summary["meaning"] == expected.summary()
    assert summary["positive"] == 2
    assert summary["metric_before"] == pytest.approx(
        expected.goal.score(tiny_graph().y, expected.probs_before)
    )
    assert "estimated F1 of spam" in said
    page = (files / "out" / "report.html").read_text()
    assert "on g.npz, " in page
    assert "share of eggs" in page
