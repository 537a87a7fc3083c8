"""One source model for each data set, architecture and seed: trained once, the same bits always."""

import os
import subprocess
import sys
from dataclasses import replace

import pytest

import matcha_gnn as mg
from matcha_paper.experiments import run, source_models, store
from matcha_paper.experiments.source_models import cached_source, hash_of
from matcha_paper.experiments.spec import cells, parse
from test_experiments import SMALL

SHIPPED = SMALL | {"train": SMALL["train"] | {"ship": ["adanpc"]}}


def first(raw, name="small"):
    return cells(parse(name, raw))[0]


@pytest.fixture
def trainings(monkeypatch):
    """The cells whose source model was trained."""
    trained, train = [], source_models.train_source

    def counted(cell, *rest):
        trained.append(cell)
        return train(cell, *rest)

    monkeypatch.setattr(source_models, "train_source", counted)
    return trained


def test_tables_share_a_model_whatever_they_give_to_methods(tmp_path, trainings):
    found = [
        cached_source(first(SMALL), tmp_path),
        cached_source(first(SHIPPED, "other"), tmp_path, methods={"adanpc"}),
        cached_source(first(SMALL), tmp_path),
    ]
    assert len(trainings) == 1
    assert len({each.made["hash"] for each in found}) == 1
    assert [set(each.model.source_arrays) for each in found] == [set(), {"adanpc"}, {"adanpc"}]
    assert all(hash_of(each.model) == each.made["hash"] for each in found)
    assert all(each.seconds > 0 and each.model.source is not None for each in found)


@pytest.mark.parametrize("change", ["seed", "graph", "training"])
def test_what_makes_another_model_is_trained_anew(change, tmp_path, trainings):
    cell = first(SMALL)
    other = {
        "seed": replace(cell, seed=5),
        "graph": replace(cell, source=dict(cell.source) | {"homophily": 0.7}),
        "training": replace(cell, train=replace(cell.train, epochs=39)),
    }[change]
    hashes = {cached_source(each, tmp_path).made["hash"] for each in (cell, other)}
    assert len(trainings) == len(hashes) == 2


def test_another_commit_trains_again_and_what_was_cut_off_too(tmp_path, trainings, monkeypatch):
    cell = first(SMALL)
    monkeypatch.setattr(source_models, "commit", lambda: "aaaa")
    before = cached_source(cell, tmp_path).made
    monkeypatch.setattr(source_models, "commit", lambda: "bbbb")
    after = cached_source(cell, tmp_path).made
    assert (before["code"], after["code"]) == ("aaaa", "bbbb")
    assert before["hash"] == after["hash"]
    assert len(trainings) == 2
    for about in (tmp_path / source_models.FOLDER).glob("*.json"):
        about.unlink()
    cached_source(cell, tmp_path)
    assert len(trainings) == 3


TRAIN = """
import sys, torch
from dataclasses import replace
from pathlib import Path
sys.path.insert(0, {tests!r})
from test_source_models import SMALL, first
from matcha_paper.experiments.source_models import cached_source
torch.set_num_threads({threads})
large = SMALL["data"] | {{"num_nodes": 3000, "num_features": 300}}
cell = first(SMALL | {{"data": large}})
cell = replace(cell, train=replace(cell.train, epochs=5, hidden_channels=16, K=5))
print(cached_source(cell, Path({folder!r})).made["hash"], torch.get_num_threads())
"""


def test_the_number_of_threads_changes_no_bit(tmp_path):
    said = []
    for threads in (1, 4):
        folder = tmp_path / str(threads)
        code = TRAIN.format(tests=os.path.dirname(__file__), threads=threads, folder=str(folder))
        environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        said.append(done.stdout.split())
    assert [threads for _, threads in said] == ["1", "4"], "threads are set back afterwards"
    assert said[0][0] == said[1][0]


def test_the_record_holds_the_accuracy_of_every_round(tmp_path):
    run(parse("small", SMALL), tmp_path, jobs=1)
    records = store.read("small", tmp_path)
    assert "curve" not in records["a", "ERM", 0]["numbers"]
    numbers = records["a", "ERM + Matcha", 0]["numbers"]
    assert len(numbers["curve"]) == 4
    assert numbers["curve"][0] == round(records["a", "ERM", 0]["numbers"]["accuracy"], 5)
    assert numbers["curve"][-1] == round(numbers["accuracy"], 5)
    source, cell = cached_source(first(SMALL), tmp_path).model, first(SMALL)
    target = source_models.make_graph(cell.target)
    two = mg.adapt(source, target, strategy=mg.Matcha(rounds=2))
    assert numbers["curve"][2] == round(mg.metrics.accuracy(two.probs, target.y), 5)
