"""From the command to a decision: questions are written, answers are read, the folder is anew."""

import csv
import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

import matcha_gnn as mg
from matcha_gnn import cli
from matcha_gnn.io import asked, outputs
from matcha_gnn.io.jsontext import write_checked_json
from matcha_gnn.questions.surest import PARTS
from running import run

SIZE = {"num_nodes": 1200, "num_features": 32, "signal": 1.5}
FILES = {"predictions.npz", "model.safetensors", "history.csv", "changed.csv", "summary.json"}
FILES |= {"report.html"}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A model, a target without labels, the same with labels, and a folder with 30 questions."""
    folder = tmp_path_factory.mktemp("asking")
    model = mg.GPRGNN(32, 2, hidden_channels=8, K=3)
    mg.fit(model, mg.datasets.csbm(**SIZE, homophily=0.9, seed=0), epochs=80)
    mg.save_model(model, folder / "m.safetensors")
    target = mg.datasets.csbm(**SIZE, homophily=0.1, seed=1)
    mg.write_graph(target, folder / "labelled.npz")
    truth = target.y.clone()
    del target.y
    mg.write_graph(target, folder / "g.npz")
    with pytest.raises(SystemExit) as stopped:
        cli.main([str(a) for a in adapt(folder, "g.npz")])
    assert stopped.value.code == 0
    return folder, truth


def adapt(folder, graph, *more):
    return (
        *("adapt", folder / "m.safetensors", folder / graph, "-o", folder / "out", "--json"),
        *("--ask", "30", *more),
    )


@pytest.fixture
def asked_folder(made, tmp_path):
    """A copy of the folder, and the labels."""
    folder, truth = made
    shutil.copytree(folder / "out", tmp_path / "out")
    return tmp_path / "out", truth


def rows_of(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def write_answers(folder, labels, number=30, name="answers.csv"):
    rows = rows_of(folder / "questions.csv")[:number]
    path = folder.parent / name
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=["node", "label", "graph"])
        writer.writeheader()
        for row in rows:
            label = int(labels[int(row["node"])])
            writer.writerow({"node": row["node"], "label": label, "graph": row["graph"]})
    return path


def test_questions_are_written_beside_the_rest(made):
    folder, _ = made
    names = {path.name for path in (folder / "out").iterdir()}
    models = {name for name in names if asked.MODEL.fullmatch(name)}
    more = {"questions.csv", "questions.html", "asked.json", "candidates.npz"}
    assert names == FILES | more | models
    rows = rows_of(folder / "out" / "questions.csv")
    assert [row["number"] for row in rows] == [str(n) for n in range(1, 31)]
    # The surest changes of the pool are candidates too, and say nothing that is not shown.
    assert len(models) == sum(name.startswith("by ") for name in rows[0]) + len(PARTS)
    assert json.loads((folder / "out" / "summary.json").read_text())["answers"] is None


def test_answers_decide_and_the_folder_is_written_anew(made, asked_folder, capsys):
    folder, truth = asked_folder
    code, said, _ = run(capsys, "answer", folder, write_answers(folder, truth), "--json")
    assert code == 0
    summary = json.loads(said)
    assert summary == json.loads((folder / "summary.json").read_text())
    assert summary["status"] == "adapted"
    assert "decided by 30 answers" in summary["meaning"]
    assert (summary["answers"]["answered"], summary["answers"]["error_rate"]) == (30, 0.05)
    model = mg.load_model(made[0] / "m.safetensors")
    result = mg.adapt(model, mg.read_graph(made[0] / "g.npz"))
    expected = result.answer({each.node: int(truth[each.node]) for each in result.ask(30)})
    with np.load(folder / "predictions.npz") as predictions:
        np.testing.assert_array_equal(predictions["probs"], expected.probs)
    assert torch.equal(mg.load_model(folder / "model.safetensors").gamma.data, expected.gamma)
    assert summary["meaning"] == expected.summary()
    assert summary["pic_after"] == pytest.approx(expected.pic_after)
    assert "Estimated from 30 answers" in (folder / "report.html").read_text()
    assert len(rows_of(folder / "history.csv")) == 2


def test_answers_add_up_over_calls(asked_folder, capsys):
    folder, truth = asked_folder
    run(capsys, "answer", folder, write_answers(folder, truth, 3), "--json")
    code, said, _ = run(capsys, "answer", folder, write_answers(folder, truth), "--json")
    assert code == 0
    assert json.loads(said)["answers"]["answered"] == 30


def test_further_questions(asked_folder, capsys):
    folder, truth = asked_folder
    first = {row["node"] for row in rows_of(folder / "questions.csv")}
    answers = write_answers(folder, truth, 20)
    code, said, _ = run(capsys, "answer", folder, answers, "--ask", "15")
    assert code == 0
    assert "Answer the 15 questions on" in said
    rows = rows_of(folder / "questions.csv")
    assert [row["number"] for row in rows] == [str(n) for n in range(21, 36)]
    assert len({row["node"] for row in rows} & first) == 10
    code, said, _ = run(capsys, "answer", folder, write_answers(folder, truth, 15), "--json")
    assert json.loads(said)["answers"]["answered"] == 35


def test_where_the_evidence_cannot_tell_answers_decide(made, capsys, tmp_path):
    folder, truth = made
    model = mg.load_model(folder / "m.safetensors")
    evidence = replace(model.source.evidence, information=torch.tensor(0.1))
    model.source = replace(model.source, evidence=evidence)
    mg.save_model(model, tmp_path / "unsure.safetensors")
    out = tmp_path / "out"
    start = ("adapt", tmp_path / "unsure.safetensors", folder / "g.npz", "-o", out)
    code, said, complaint = run(capsys, *start, "--ask", "30")
    assert (code, "cannot tell" in said) == (0, True), complaint
    assert "Answer the 30 questions" in said
    with np.load(out / "candidates.npz") as kept:
        assert kept.files == ["probs"]
    assert "nan" not in (out / "questions.csv").read_text().lower()
    assert "Nothing is estimated of them." in (out / "report.html").read_text()
    code, said, _ = run(capsys, "answer", out, write_answers(out, truth), "--json")
    summary = json.loads(said)
    assert (code, summary["status"]) == (0, "adapted")
    assert "decided by 30 answers" in summary["meaning"]


def test_labels_in_the_graph_file_are_used_for_scores_alone(made, capsys, tmp_path):
    folder, truth = made
    out = tmp_path / "out"
    arguments = [out if each == folder / "out" else each for each in adapt(folder, "labelled.npz")]
    run(capsys, *arguments)
    lies = 1 - truth
    code, said, _ = run(capsys, "answer", out, write_answers(out, lies), "--json")
    assert code == 0
    summary = json.loads(said)
    assert summary["status"] == "kept source"
    assert summary["accuracy_before"] == summary["accuracy_after"] > 0.7


def test_names_columns_and_classes_are_shown(made, capsys, tmp_path):
    folder, truth = made
    lines = ["node,name,country", *(f"{n},user {n},{'DE' if n % 2 else 'FR'}" for n in range(1200))]
    (tmp_path / "nodes.csv").write_text("\n".join(lines))
    out = tmp_path / "out"
    arguments = [out if each == folder / "out" else each for each in adapt(folder, "g.npz")]
    options = ("--table", tmp_path / "nodes.csv", "--classes", "ham, spam")
    assert run(capsys, *arguments, *options)[0] == 0
    for row in rows_of(out / "questions.csv"):
        assert row["name"] == f"user {row['node']}"
        assert row["country"] == ("DE" if int(row["node"]) % 2 else "FR")
        assert row["by source"] in ("ham", "spam")
    page = (out / "questions.html").read_text()
    assert "user " in page
    assert "spam" in page
    answers = write_answers(out, truth, 5)
    answers.write_text(answers.read_text().replace(",0,", ",ham,").replace(",1,", ",spam,"))
    code, said, _ = run(capsys, "answer", out, answers, "--ask", "5", "--json")
    assert (code, json.loads(said)["answers"]["answered"]) == (0, 5)
    assert rows_of(out / "questions.csv")[0]["name"].startswith("user ")


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


BAD = {
    "node,label\n": r"(no answer)",
    "": "(no column 'node')",
    "node,label\n99999,0\n": "answers.csv, line 2: got node 99999",
    "node,label\n{0},7\n": "answers.csv, line 2: got 7; allowed: classes 0 to 1",
    "node,label\n{0},0\n{0},1\n": "allowed: class 0, as in line 2",
    "node,label,graph\n{0},0,abc\n": "got the graph abc",
}


@pytest.mark.parametrize("text", BAD)
def test_bad_answers_get_one_line_and_change_nothing(text, asked_folder, capsys):
    folder, _ = asked_folder
    before = contents(folder)
    node = rows_of(folder / "questions.csv")[0]["node"]
    (folder.parent / "answers.csv").write_text(text.format(node))
    code, said, complaint = run(capsys, "answer", folder, folder.parent / "answers.csv")
    assert (code, said) == (2, "")
    assert BAD[text] in complaint
    assert complaint.count("\n") == 1
    assert contents(folder) == before


def damaged(name, content):
    def damage(folder):
        (folder / name).write_bytes(content)

    return damage


def rewrite_record(folder, entries):
    """Other entries, with a checksum that fits them."""
    record = json.loads((folder / "asked.json").read_text())
    del record["checksum"]
    write_checked_json(folder / "asked.json", record | entries)


def changed(**entries):
    def change(folder):
        rewrite_record(folder, entries)

    return change


TROUBLE = {
    "no questions": (lambda folder: (folder / "asked.json").unlink(), "(no asked.json); allowed"),
    "no json": (damaged("asked.json", b"{"), "asked.json (not JSON)"),
    "another format": (changed(format="x"), "(format 'x')"),
    "another graph": (changed(graph="x"), "graph: got a graph with the fingerprint"),
    "another order": (changed(seed=5), "candidates that do not give the order"),
    "no candidates": (lambda folder: (folder / "candidates.npz").unlink(), "(no such file)"),
    "damaged": (damaged("candidates.npz", b"PK"), "candidates.npz (damaged)"),
    "no model": (lambda folder: (folder / "candidate-1.safetensors").unlink(), "(no such file)"),
}


@pytest.mark.parametrize("name", TROUBLE)
def test_a_folder_that_cannot_be_used_gets_one_line(name, asked_folder, capsys):
    folder, truth = asked_folder
    answers = write_answers(folder, truth)
    spoil, message = TROUBLE[name]
    spoil(folder)
    before = contents(folder)
    code, _, complaint = run(capsys, "answer", folder, answers)
    assert code == 2
    assert message in complaint
    assert complaint.count("\n") == 1
    assert contents(folder) == before


def test_a_graph_that_was_moved_can_be_named(made, asked_folder, capsys, tmp_path):
    folder, truth = asked_folder
    record = json.loads((folder / "asked.json").read_text())
    gone = {"graph": str(tmp_path / "gone.npz")}
    rewrite_record(folder, {"call": record["call"] | gone})
    answers = write_answers(folder, truth)
    code, _, complaint = run(capsys, "answer", folder, answers)
    assert (code, "gone.npz (no such file)" in complaint) == (2, True)
    assert run(capsys, "answer", folder, answers, "--graph", made[0] / "g.npz")[0] == 0
    assert run(capsys, "answer", folder, answers)[0] == 0


def test_an_interrupted_decision_can_be_made_again(asked_folder, capsys, monkeypatch):
    folder, truth = asked_folder
    answers = write_answers(folder, truth)

    def fail(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(outputs, "summarise_run", fail)
    code, _, complaint = run(capsys, "answer", folder, answers)
    assert (code, complaint) == (2, "matcha: No space left on device\n")
    assert not (folder / "summary.json").exists()
    monkeypatch.undo()
    assert run(capsys, "answer", folder, answers)[0] == 0
    assert json.loads((folder / "summary.json").read_text())["answers"]["answered"] == 30


def test_a_run_without_questions_removes_those_of_an_earlier_one(made, asked_folder, capsys):
    folder, _ = asked_folder
    arguments = ("adapt", made[0] / "m.safetensors", made[0] / "g.npz", "-o", folder, "--json")
    code, _, complaint = run(capsys, *arguments, "--force")
    assert (code, complaint) == (0, "")
    assert {path.name for path in folder.iterdir()} == FILES


def typed(folder, label="1", number=1):
    """The questions with a label typed into the first of them, as a spreadsheet saves them."""
    path = folder / "questions.csv"
    rows = rows_of(path)
    for row in rows[:number]:
        row["label"] = label
    with open(path, "w", newline="", encoding="utf-8-sig") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]), delimiter=";")
        writer.writeheader()
        writer.writerows(rows)
    return path.read_bytes()


@pytest.mark.parametrize("options", [(), ("--ask", "5")])
def test_typed_answers_outlive_another_run(made, asked_folder, capsys, options):
    folder, _ = asked_folder
    before, text = contents(folder), typed(folder)
    arguments = ("adapt", made[0] / "m.safetensors", made[0] / "g.npz", "-o", folder, "--json")
    code, _, complaint = run(capsys, *arguments, *options)
    assert (code, "(not empty); allowed: a new or an empty folder, or --force" in complaint) == (
        (2, True)
    )
    assert contents(folder) == before | {"questions.csv": text}
    for name in ("questions-answered.csv", "questions-answered-2.csv"):
        code, _, complaint = run(capsys, *arguments, *options, "--force")
        assert code == 0
        kept = f"the answers in {folder}/questions.csv are kept as {folder / name}\n"
        assert complaint == kept
        assert (folder / name).read_bytes() == text
        assert (folder / "questions.csv").exists() == bool(options)
        (folder / "questions.csv").write_bytes(text)


def test_answers_that_were_used_make_room_for_further_questions(asked_folder, capsys):
    folder, truth = asked_folder
    answers = write_answers(folder, truth, 3)
    typed(folder, label="0", number=3)
    code, _, complaint = run(capsys, "answer", folder, answers, "--ask", "5", "--json")
    assert (code, complaint) == (0, "")
    assert not list(folder.glob("questions-answered*"))
    text = typed(folder)
    code, _, complaint = run(capsys, "answer", folder, answers, "--ask", "4", "--json")
    assert (code, "questions-answered.csv" in complaint) == (0, True)
    assert (folder / "questions-answered.csv").read_bytes() == text


def test_options_that_cannot_work_are_refused_before_any_work(made, capsys, tmp_path):
    folder, _ = made
    out = tmp_path / "out"
    start = ("adapt", folder / "m.safetensors", folder / "g.npz", "-o", out)
    (tmp_path / "t.csv").write_text("name\na\n")
    (tmp_path / "u.csv").write_text("node,name\n5,a\nx,b\n")
    refused = {
        ("--ask", "0"): "--ask: got 0; allowed: an integer >= 1",
        ("--table", tmp_path / "t.csv"): "allowed: none without --ask",
        ("--ask", "5", "--table", tmp_path / "t.csv"): "(1 lines); allowed: a line for each of",
        ("--ask", "5", "--table", tmp_path / "u.csv"): "line 3: node 'x'; allowed: nodes 0 to 1199",
    }
    for options, message in refused.items():
        code, _, complaint = run(capsys, *start, *options)
        assert (code, message in complaint) == (2, True), complaint
        assert not out.exists()


def test_where_nothing_can_be_asked_the_rest_is_written(made, capsys, tmp_path):
    folder, _ = made
    out = tmp_path / "out"
    start = ("adapt", folder / "m.safetensors", folder / "g.npz", "-o", out, "--ask", "5")
    code, _, complaint = run(capsys, *start, "--strategy", "closed_form")
    assert (code, complaint) == (2, "matcha: ask: there are no candidates to choose among\n")
    assert {path.name for path in out.iterdir()} == FILES
    code, _, complaint = run(capsys, *start, "--force", "--classes", "a,b,c")
    assert (code, "allowed: 2 different names" in complaint) == (2, True)


def test_a_metric_and_names_of_classes_stay_through_answers(made, tmp_path, capsys):
    folder, truth = made
    given = ("-o", tmp_path / "out", "--metric", "f1", "--positive", "fraud")
    given = (*given, "--classes", "licit,fraud", "--ask", "30")
    assert run(capsys, "adapt", folder / "m.safetensors", folder / "g.npz", *given)[0] == 0
    answers = write_answers(tmp_path / "out", truth)
    code, said, _ = run(capsys, "answer", tmp_path / "out", answers, "--json")
    assert code == 0
    summary = json.loads(said)
    assert (summary["metric"], summary["positive"]) == ("f1", 1)
    assert "Answers test accuracy, not F1 of fraud, which is estimated" in summary["meaning"]
