"""The study of watches: one small stream from training to the tables, and the recorded one."""

import json
from pathlib import Path

import pytest

import matcha_gnn as mg
from matcha_gnn.io.jsontext import json_text
from matcha_gnn.metrics import accuracy
from matcha_paper.studies import watch
from matcha_paper.studies.watch import Stream, truths

RECORD = Path(__file__).parents[2] / "results" / "watch.json"


def draw(homophily, seed, nodes=150):
    return mg.datasets.csbm(nodes, 16, homophily=homophily, signal=1.5, degree=5, seed=seed)


@pytest.fixture
def records(monkeypatch):
    monkeypatch.setattr(watch, "EPOCHS", 40)
    source = watch._split(draw(0.8, 0, 400), seed=0)
    graphs = {"same": draw(0.8, 1), "other": draw(0.2, 2)}
    return list(watch.follow(Stream("small", source, graphs, resamples=2), seed=0))


def test_a_stream_is_followed_and_scored(records, capsys):
    assert [record["graph"] for record in records] == ["same", "other"]
    assert all(0 <= record[key] <= 1 for record in records for key in ("none", "watch", "chain"))
    assert all(sum(record["chance"]["level"]) >= 2 for record in records)
    assert json.loads(json_text(records)) == records
    watch.show(records)
    said = capsys.readouterr().out
    assert "| small | 2 |" in said
    assert "| not mended |" in said


def test_the_model_alone_is_scored_as_none(monkeypatch, records):
    source = watch._split(draw(0.8, 0, 400), seed=0)
    model = mg.GPRGNN(16, 2)
    mg.fit(model, source, epochs=40, seed=0)
    alone = [accuracy(mg.predict(model, g).probs, g.y) for g in (draw(0.8, 1), draw(0.2, 2))]
    assert [record["none"] for record in records] == pytest.approx(alone)


def test_an_alarm_is_true_where_labels_say_so():
    record = {"on_source": 0.9, "none": 0.8, "watch": 0.82, "level": 0.8, "shares_moved": 0.05}
    assert truths(record) == {"level": False, "not mended": True, "class shares": False}
    assert not truths(record | {"watch": 0.86})["not mended"]
    assert truths(record | {"watch": 0.79, "shares_moved": 0.1})["level"]


def test_the_record_has_every_stream(capsys):
    runs = json.loads(RECORD.read_text())["runs"]
    assert {run["stream"].split()[0] for run in runs} == {"Twitch", "Syn-Cora", "Arxiv-structure"}
    watch.show(runs)
    assert "| all |" in capsys.readouterr().out
