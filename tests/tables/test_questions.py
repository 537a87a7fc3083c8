"""Questions and answers about nodes in tables are those of the core; the command."""

import csv
import json

import numpy as np
import pyarrow.parquet as pq
import pytest

import matcha_gnn as mg
from matcha_gnn.tables.command import adapt_command, estimate_command
from table_worlds import files, in_memory, world


@pytest.fixture(scope="module")
def made():
    return world(5, 1500)


@pytest.fixture
def answer(made, tmp_path):
    given = files(made, tmp_path)
    out = str(tmp_path / "out.parquet")
    with mg.tables.adapt(*given, source=made.summary, out=out) as answer:
        yield answer


@pytest.fixture(scope="module")
def truth():
    made = {"num_features": 48, "degree": 6.0, "signal": 2.5, "shares": [0.2] * 5}
    return mg.datasets.csbm(1500, homophily=0.4, seed=1, **made).y.tolist()


def test_the_same_nodes_are_asked_and_the_same_is_decided(made, answer, truth):
    result = in_memory(made)
    rows, questions = answer.ask(30, seed=3), result.ask(30, seed=3)
    assert [row["id"] for row in rows] == [each.node for each in questions]
    for row, question in zip(rows, questions, strict=True):
        for one in question.opinions:
            assert row[f"by {one.candidate}"] == one.label
            assert row[f"confidence of {one.candidate}"] == pytest.approx(one.confidence, abs=1e-3)
    labels = {row["id"]: truth[row["id"]] for row in rows}
    other = result.answer(labels)
    own = answer.answer(labels).decision
    assert [one.name for one in own.candidates] == [one.name for one in other.candidates]
    assert own.chosen == other.chosen
    assert own.verdict.permitted == other.verdict.permitted
    for kind in ("accuracies", "gains"):
        both = (getattr(each.verdict, kind) for each in (own, other))
        np.testing.assert_allclose(*both, atol=1e-4)


def test_answers_choose_what_is_written(answer, truth):
    before = pq.read_table(answer.out).sort_by("id").column("label").to_pylist()
    rows = answer.ask(60)
    # As the network says at every node: nothing else is permitted.
    answer.answer({row["id"]: row["by source"] for row in rows})
    assert answer.decision.chosen == "source"
    table = pq.read_table(answer.out).sort_by("id")
    assert not any(table.column("changed").to_pylist())
    assert table.column("label").to_pylist() != before
    answer.ask(200)
    answer.answer({row["id"]: truth[row["id"]] for row in answer.ask(200)})
    assert answer.decision.adapted
    shares = [x == y for x, y in zip(before, truth, strict=True)]
    labels = pq.read_table(answer.out).sort_by("id").column("label").to_pylist()
    after = [x == y for x, y in zip(labels, truth, strict=True)]
    assert sum(after) > 0.9 * sum(shares)


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ({}, "answers: got none; allowed: at least one"),
        ({-1: 0}, "answers: got id -1; allowed: ids that were asked"),
        ("/none.csv", "answers: got /none.csv (no such file); allowed: an existing file"),
    ],
)
def test_answers_that_are_none(answers, said, answer):
    answer.ask(5)
    with pytest.raises(mg.InvalidArgumentError) as error:
        answer.answer(answers)
    assert str(error.value) == said


def test_the_page_and_the_figures(answer, tmp_path):
    answer.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    pool = next(one for one in answer.decision.candidates if one.name == "pool")
    for part in ("1,500 nodes", answer.summary(), f"{100 * pool.accuracy.value:.1f}"):
        assert part.replace("'", "&#x27;") in page
    answer.to_json(tmp_path / "figures.json")
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert figures["chosen"] == answer.decision.chosen
    assert [each["name"] for each in figures["candidates"]] == ["source", "pool", "belief", "probe"]


def test_the_command_from_questions_to_answers(made, truth, tmp_path):
    nodes, edges = files(made, tmp_path)
    source, folder = tmp_path / "source.safetensors", tmp_path / "out"
    made.summary.save(source)
    said, broken = adapt_command(nodes, edges, source, folder, ask=40)
    assert not broken
    assert "40 questions" in said
    assert {path.name for path in folder.iterdir()} == {
        *("answers.parquet", "questions.csv", "report.html", "summary.json")
    }
    with open(folder / "questions.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    with open(folder / "questions.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(row | {"label": str(truth[int(row["id"])])} for row in rows)
    with pytest.raises(mg.InvalidFileError, match="not empty"):
        adapt_command(nodes, edges, source, folder)
    with pytest.raises(mg.InvalidFileError, match="40 answers in"):
        adapt_command(nodes, edges, source, folder, ask=40, force=True)
    answers = folder / "questions.csv"
    figures = json.loads(
        adapt_command(nodes, edges, source, folder, answers=answers, force=True, as_json=True)[0]
    )
    result = in_memory(made)
    asked = {each.node: truth[each.node] for each in result.ask(40)}
    assert figures["chosen"] == result.answer(asked).chosen
    estimate = json.loads(estimate_command(nodes, edges, source, as_json=True))
    assert estimate["low"] < estimate["value"] < estimate["high"]


def test_nothing_was_asked(answer):
    with pytest.raises(mg.IncompatibleError, match="nothing has been asked"):
        answer.answer({0: 1})
