"""The wheel holds what is needed to run without the repository."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import matcha_gnn as mg

PROJECT = Path(__file__).parents[1]


FOLDERS = {"matcha_gnn": PROJECT, "matcha_paper": PROJECT / "paper"}
"""Where each distribution lies, by its package."""


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    """Built from the working tree; `make wheel` does it in an empty venv and runs the demo."""
    built = {}
    for package, place in FOLDERS.items():
        folder = tmp_path_factory.mktemp(package)
        build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder]
        subprocess.run([*build, place], check=True, capture_output=True, cwd=folder)
        built[package] = next(folder.glob("*.whl"))
    return built


@pytest.mark.parametrize(
    ("package", "entry", "data"),
    [
        ("matcha_gnn", "matcha = matcha_gnn.__main__:main", "result.html.j2"),
        ("matcha_paper", "reproduce = matcha_paper.command:reproduce", "table1.toml"),
    ],
)
def test_a_wheel_holds_code_data_and_entry_points(wheels, package, entry, data):
    with zipfile.ZipFile(wheels[package]) as archive:
        names = set(archive.namelist())
        points = next(n for n in names if n.endswith("entry_points.txt"))
        assert entry in archive.read(points).decode()
    source = FOLDERS[package] / "src"
    wanted = {p.relative_to(source).as_posix() for p in source.rglob("*") if p.is_file()}
    wanted = {n for n in wanted if "__pycache__" not in n and ".egg-info" not in n}
    assert wanted <= names
    assert {n.split("/")[0] for n in names} <= {package, points.split("/")[0]}
    assert any(n.endswith(data) for n in wanted)
    assert f"{package}/py.typed" in wanted


def test_a_source_tree_that_is_not_installed_says_so(monkeypatch):
    import importlib.metadata

    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    assert mg.__version__ == "0+unknown"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_any_module_may_be_the_first_import():
    code = """
import importlib, os, torch
for module in ("gamma", "kernels", "metrics", "network", "evidence"):
    if os.fork() == 0:
        importlib.import_module(f"matcha_gnn.{module}")
        os._exit(0)
    assert os.wait()[1] == 0, module
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
