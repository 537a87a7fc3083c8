"""The wheel holds what is needed to run without the repository."""

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import matcha_gnn as mg

PROJECT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Built from the working tree; `make wheel` does it in an empty venv and runs the demo."""
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder]
    subprocess.run([*build, PROJECT], check=True, capture_output=True, cwd=folder)
    return next(folder.glob("*.whl"))


def test_the_wheel_holds_code_data_and_the_command(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        entry = next(n for n in names if n.endswith("entry_points.txt"))
        assert "matcha = matcha_gnn.__main__:main" in archive.read(entry).decode()
    source = PROJECT / "src"
    wanted = {p.relative_to(source).as_posix() for p in source.rglob("*") if p.is_file()}
    wanted = {n for n in wanted if "__pycache__" not in n and ".egg-info" not in n}
    assert wanted <= names
    assert {n.split("/")[0] for n in names} <= {"matcha_gnn", entry.split("/")[0]}
    assert any(n.endswith("result.html.j2") for n in wanted)
    assert "matcha_gnn/py.typed" in wanted


def test_the_wheel_runs_outside_the_repository(wheel, tmp_path):
    place = tmp_path / "site"
    install = ["-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", place]
    subprocess.run([sys.executable, *install, wheel], check=True)

    def matcha(*arguments):
        done = subprocess.run(
            [sys.executable, "-m", "matcha_gnn", *arguments],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(place)},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    version = re.search(r"matcha_gnn-(.+?)-py3", wheel.name)[1]
    assert matcha("--version").strip() == f"matcha {version}"
    matcha("make-graph", "csbm", "-o", "g.npz", "--nodes", "200", "--features", "8")
    assert (tmp_path / "g.npz").is_file()
    assert "table1" in matcha("reproduce", "--list")


def test_a_source_tree_that_is_not_installed_says_so(monkeypatch):
    import importlib.metadata

    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    assert mg.__version__ == "0+unknown"


@pytest.mark.parametrize("module", ["hops", "kernels", "functional", "backbones", "evidence"])
def test_any_module_may_be_the_first_import(module):
    code = f"import matcha_gnn.{module}; from matcha_gnn import {module}"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
