"""Resident memory stays below what was promised, with a stack several times as large."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import matcha_gnn as mg
from matcha_gnn.graphs.stored.plan import bytes_of

RUN = Path(__file__).with_name("runs.py")
NODES, FEATURES, WIDTH, HOPS = 190_000, 16, 256, 9
MEMORY = "900MB"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("promise")
    model = mg.GPRGNN(FEATURES, 2, WIDTH, HOPS)
    mg.fit(model, mg.datasets.csbm(300, FEATURES, seed=10), epochs=5, seed=10)
    mg.save_model(model, folder / "model.safetensors")
    mg.datasets.store_csbm(folder / "store", NODES, FEATURES, degree=4, homophily=0.2, seed=11)
    return folder


@pytest.mark.parametrize("method", ["erm", "tent", "default"])
def test_the_promise_is_kept(method, files):
    stack = 4 * NODES * WIDTH * (HOPS + 1)
    given = files / "model.safetensors", files / "store", files / "answer.npz", MEMORY, method
    command = [sys.executable, str(RUN), *map(str, given)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    peak = json.loads(done.stdout.splitlines()[-1])["peak"]
    assert stack > 2 * bytes_of(MEMORY)
    assert peak < bytes_of(MEMORY)
