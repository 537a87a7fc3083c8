"""GPU programs compile, and the record of `make gpu` is of the present ones."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
sys.path.insert(0, str(PROJECT / "tests"))


def test_every_program_compiles_in_every_signature():
    pytest.importorskip("triton", reason="Triton has no wheel for this machine")
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, str(PROJECT / "tests" / "kernels" / "compile_programs.py")],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "product: 80 compiled" in done.stdout


def test_the_record_is_of_the_present_programs_and_nothing_failed():
    from gpu_checks import sources_hash

    record = json.loads((PROJECT / "results" / "gpu.json").read_text())
    assert record["hash"] == sources_hash(), "GPU programs changed: run `make gpu` on a GPU"
    assert len(record["checks"]) > 100
    assert [name for name, each in record["checks"].items() if not each["passed"]] == []
