"""Runs that are killed on the way: what was finished is used again, and the answer is the same."""

import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from small_stores import set_blocks, source_model, target_graph

import matcha_gnn as mg
from matcha_gnn.graphs.stored import propagation
from matcha_gnn.graphs.stored.target import hop_files, planned

RUN = Path(__file__).with_name("runs.py")


class Killed(BaseException):
    """What a SIGKILL leaves no chance to handle."""


@pytest.mark.parametrize("after", [1, 5, 13, 24, 39])
def test_a_run_that_is_broken_off_goes_on_at_the_last_finished_hop(after, tmp_path, monkeypatch):
    set_blocks(monkeypatch, 700)
    store = mg.GraphStore.create(tmp_path / "store", target_graph())
    write, written = propagation.ArrayWriter.write, []

    def counting(self, rows):
        written.append(len(rows))
        if len(written) == after:
            raise Killed
        write(self, rows)

    monkeypatch.setattr(propagation.ArrayWriter, "write", counting)
    given = {"strategy": mg.Matcha(rounds=3)}
    with pytest.raises(Killed):
        mg.adapt(source_model(), store, **given)
    finished = sorted((store.folder / "hops").rglob("hop-*.npy"))
    stamps = [path.stat().st_mtime_ns for path in finished]
    resumed = mg.adapt(source_model(), mg.GraphStore(store.folder), **given)
    assert [path.stat().st_mtime_ns for path in finished] == stamps
    monkeypatch.undo()
    set_blocks(monkeypatch, 700)
    other = mg.GraphStore.create(tmp_path / "other", target_graph())
    unbroken = mg.adapt(source_model(), other, **given)
    assert torch.equal(resumed.probs, unbroken.probs)
    assert torch.equal(resumed.gamma, unbroken.gamma)


@pytest.mark.parametrize(("begun", "now", "goes_on"), [(4, 7, True), (2, 7, False), (5, 4, False)])
def test_a_resumed_run_keeps_column_blocks_that_fit(begun, now, goes_on, tmp_path):
    store, model = mg.GraphStore.create(tmp_path / "store", target_graph()), source_model()
    target = planned(store, model, mg.ERM(), mg.Matcha(rounds=1))
    target.__dict__["plan"] = replace(target.plan, block_width=begun)
    whole = target.hops(model)
    stack = torch.cat([block.clone() for _, block in whole.blocks()])
    for path in (store.folder / "hops").rglob("hop-02-*"):
        path.unlink()
    found = hop_files(store, model.hops_key(target), model, now)
    assert found.widths[0] == (begun if goes_on else now)
    target.__dict__["plan"] = replace(target.plan, block_width=now)
    again = torch.cat([block.clone() for _, block in target.hops(model).blocks()])
    torch.testing.assert_close(again, stack)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kills")
    mg.save_model(source_model(), folder / "model.safetensors")
    mg.datasets.store_csbm(folder / "store", 40_000, 16, degree=8, homophily=0.2, seed=11)
    return folder


def start(files, method):
    given = files / "model.safetensors", files / "store", files / "answer.npz", "1GB", method
    return subprocess.Popen([sys.executable, str(RUN), *map(str, given)], stdout=subprocess.DEVNULL)


@pytest.mark.parametrize(("method", "finished"), [("erm", 1), ("t3a", 2), ("erm", 4)])
def test_sigkill(method, finished, files):
    """Killed when so many of four hops are there: the last time, while it adapts."""
    assert start(files, method).wait() == 0
    with np.load(files / "answer.npz") as answer:
        expected = dict(answer)
    hops = files / "store" / "hops"
    for path in [*hops.rglob("hop-*.npy"), files / "answer.npz"]:
        path.unlink()
    process = start(files, method)
    while len(list(hops.rglob("hop-*.npy"))) < finished and process.poll() is None:
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert start(files, method).wait() == 0
    assert not list(hops.rglob(".hop-*"))
    with np.load(files / "answer.npz") as answer:
        assert all(np.array_equal(answer[name], expected[name]) for name in expected)
