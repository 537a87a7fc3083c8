"""The benchmark of selectors: saved runs come back, and each selector finds a clear winner."""

import json
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from matcha_gnn.evidence.weighing import PoolWeights
from matcha_paper.studies import ask, ask_runs
from matcha_paper.studies.ask_saved import SavedRun
from matcha_paper.studies.ask_selectors import (
    SELECTORS,
    Coda,
)
from matcha_paper.studies.evidence_cases import Pair
from matcha_paper.studies.worlds import World


def made_run(gain=0.2, nodes=800, classes=3, real=False):
    """A source that is right on 60%, a candidate that gains, and one that loses as much."""
    rng = np.random.default_rng(0)
    truth = rng.integers(classes, size=nodes)
    rates = (0.6, 0.6 + gain, 0.6 - gain)
    right = rng.random(nodes)
    labels = np.stack([np.where(right < rate, truth, (truth + 1) % classes) for rate in rates])
    probs = 0.6 * np.eye(classes)[labels] + 0.4 / classes
    names = ("source", "better", "worse")
    prior = (0.7 * np.eye(classes)[truth] + 0.3 / classes).astype(np.float32)
    kept = {"names": names, "probs": probs.astype(np.float32), "truth": truth, "prior": prior}
    return SavedRun(case="made", family="made", real=real, default=labels[0], **kept)


@pytest.mark.parametrize("kind", SELECTORS, ids=lambda kind: kind.name)
def test_a_much_better_candidate_is_found(kind):
    run = made_run()
    selector = kind(run, np.random.default_rng(0))
    selector.ask(60)
    assert len(set(selector.nodes)) == 60
    assert selector.choice(60) == selector.plain_choice(60) == 1
    assert selector.choice(0) == 0 or isinstance(selector, Coda)


def test_selectors_stop_when_there_is_nothing_left_to_ask():
    run = made_run(gain=0.02, nodes=100)
    alone = replace(run, names=run.names[:1], probs=run.probs[:1])
    for kind in SELECTORS:
        selector = kind(run, np.random.default_rng(0))
        selector.ask(200)
        assert selector.choice(200) in (0, 1, 2)
        assert len(selector.nodes) <= 100
        selector = kind(alone, np.random.default_rng(0))
        selector.ask(200)
        assert selector.choice(200) == selector.plain_choice(200) == 0


def test_saved_runs_come_back(tmp_path):
    run = made_run()
    run.save(tmp_path / "run.npz")
    again = SavedRun.load(tmp_path / "run.npz")
    assert (again.case, again.names, again.real) == (run.case, run.names, run.real)
    assert np.array_equal(again.labels, run.labels)
    assert np.array_equal(again.truth, run.truth)
    assert np.array_equal(again.prior, run.prior)
    assert again.accuracies == pytest.approx(run.accuracies)


def test_candidates_of_a_shift_are_collected_once(tmp_path):
    world = World(nodes=500, features=16)
    pair = Pair("small", world, replace(world, homophily=0.2))
    (said,) = ask_runs.work(pair, "small, .8-.2", 0, ["erm"], tmp_path)
    assert said.startswith("small, .8-.2, erm, seed 0: {'source': ")
    (path,) = tmp_path.glob("*.npz")
    run = SavedRun.load(path)
    assert run.names[0] == "source"
    assert len(run.names) == len({row.tobytes() for row in run.labels}) > 2
    assert run.prior.shape == (500, 2)
    written = path.stat().st_mtime_ns
    assert ask_runs.work(pair, "small, .8-.2", 0, ["erm"], tmp_path) == []
    assert path.stat().st_mtime_ns == written
    logs = [torch.from_numpy(each) for each in (run.evidence, run.network)]
    pooled = PoolWeights(*run.pool.tolist()).pool(*logs).exp().numpy()
    assert pooled == pytest.approx(run.prior, abs=1e-4)


def test_the_benchmark_writes_and_shows_its_tables(tmp_path, monkeypatch, capsys):
    folder = tmp_path / "runs"
    folder.mkdir()
    for number, real in enumerate((False, True)):
        made_run(real=real).save(folder / f"made-{number}.npz")
    out = tmp_path / "record.json"
    words = [str(folder), "--out", str(out), "--repeats", "2", "--jobs", "1"]
    monkeypatch.setattr(sys, "argv", ["ask", *words])
    ask.main()
    record = json.loads(out.read_text())
    assert {run["real"] for run in record["runs"]} == {False, True}
    first = record["runs"][0]
    assert {"ours", "ours, whole candidates", "CODA", "random, plain rule"} <= set(first["rules"])
    assert "ours, plain rule" not in first["rules"]
    ours = first["rules"]["ours"]
    assert len(ours["mean"]) == len(ours["hurt"]) == len(ask.COUNTS)
    assert ours["mean"][-1] == pytest.approx(first["best"], abs=1e-3)
    assert first["rules"]["random"]["hurt"][-1] == 0
    monkeypatch.setattr(sys, "argv", ["ask", "show", str(out)])
    capsys.readouterr()
    ask.main()
    said = capsys.readouterr().out
    assert "generated\n1 runs; best candidate" in said
    assert "| ours |" in said
