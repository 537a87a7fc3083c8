"""A run that is killed leaves whole files or none, and the next run succeeds."""

import json
import os
import subprocess
import sys
from pathlib import Path

import kills
import numpy as np
import pytest
from matcha_gnn.testing import trained_model

import matcha_gnn as mg
from matcha_gnn.io.outputs import Made, write_outputs

SHARE, EVERY = 12, 6
"""Kills at random moments, and at files; `make trust` makes 120, and one at every file."""


@pytest.mark.slow
def test_killed_at_random_moments(tmp_path):
    record, script = tmp_path / "record.json", Path(kills.__file__)
    quiet = {"OMP_NUM_THREADS": "1"}
    command = [sys.executable, script, str(SHARE), str(EVERY), "0", record]
    subprocess.run(command, check=True, env=os.environ | quiet, timeout=500)
    found = json.loads(record.read_text())
    assert found["wrong"] == []
    assert found["tried"] >= SHARE
    assert set(found["jobs"]) == {job.name for job in kills.JOBS}


def test_shares_add_up_to_all_kills():
    assert sum(job.share for job in kills.JOBS) == pytest.approx(1)


def test_the_battery_would_notice(tmp_path):
    """Files that are cut off, a temporary file, and a summary of another run."""
    mg.save_model(trained_model(), tmp_path / "m.safetensors")
    np.savez(tmp_path / "g.npz", x=np.ones(50))
    (tmp_path / "page.html").write_text("<html></html>")
    (tmp_path / "table.csv").write_text("a,b\n")
    assert list(kills.faults(tmp_path)) == []
    for path in kills.files(tmp_path):
        whole = path.read_bytes()
        path.write_bytes(whole[:-3])
        assert len(list(kills.faults(tmp_path))) == 1, path.name
        path.write_bytes(whole)
    (tmp_path / ".m.safetensors.0123abcd.safetensors").touch()
    assert kills.left_over(tmp_path) == [".m.safetensors.0123abcd.safetensors"]


def test_a_summary_of_another_run_is_noticed(tmp_path):
    result = mg.adapt(trained_model(), kills.tiny_graph(), strategy=mg.Matcha(rounds=2))
    write_outputs(result, tmp_path, None, None, Made(page=False))
    assert list(kills.faults(tmp_path)) == []
    mg.save_model(trained_model(), tmp_path / "model.safetensors")
    assert any("not that of the summary" in fault for fault in kills.faults(tmp_path))
