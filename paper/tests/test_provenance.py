"""Records name the commit of the project's own checkout, and no other repository is asked."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from matcha_gnn.io.provenance import versions
from matcha_paper import provenance

PROJECT = Path(__file__).parents[2]
SOURCES = ("src", "paper/src")
RUN = """
import sys
from pathlib import Path
from matcha_paper.experiments import run
from matcha_paper.experiments.spec import parse
train = {"backbone": "gprgnn", "hidden_channels": 4, "K": 2, "epochs": 1, "lr": 0.01}
graph = {"homophily": 0.5}
run(parse("small", {
    "title": "small",
    "seeds": [0],
    "data": {"generator": "csbm", "num_nodes": 40, "num_features": 4},
    "train": train | {"weight_decay": 0.0},
    "columns": {"a": {"source": graph, "target": graph}},
    "rows": {"ERM": {"method": "erm", "epochs": 0}},
}), Path(sys.argv[1]), jobs=1)
"""


def git(folder, *arguments):
    who = ("-c", "user.name=nobody", "-c", "user.email=nobody@example.org")
    done = subprocess.run(
        ["git", *who, *arguments], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path):
    """A repository with src/matcha_gnn, and a monitor that writes the file `asked` when it runs."""
    folder = tmp_path / "repository"
    package = folder / "src" / "matcha_gnn"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("first\n")
    (folder / "records").write_text("first\n")
    git(folder, "init", "--quiet")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "first")
    monitor = tmp_path / "monitor"
    monitor.write_text(f"#!/bin/sh\ntouch '{tmp_path / 'asked'}'\n")
    monitor.chmod(0o755)
    git(folder, "config", "core.fsmonitor", str(monitor))
    return folder


def own(repository):
    """Make it the project's own checkout, and give where the package lies."""
    (repository / "pyproject.toml").write_text('[project]\nname = "matcha-gnn"\n')
    provenance.commit_of.cache_clear()
    return repository / "src" / "matcha_gnn"


def was_asked(repository):
    return (repository.parent / "asked").exists()


def test_a_record_does_not_ask_the_repository_it_is_installed_in(repository):
    for source in SOURCES:
        shutil.copytree(PROJECT / source, repository / source, dirs_exist_ok=True)
    results = repository.parent / "results"
    paths = os.pathsep.join(str(repository / source) for source in SOURCES)
    environment = os.environ | {"PYTHONPATH": paths}
    environment.pop("MATCHA_COMMIT", None)
    subprocess.run([sys.executable, "-c", RUN, results], check=True, env=environment)
    assert not was_asked(repository)
    record = json.loads((results / "small.jsonl").read_text())
    assert record["code"] is None
    assert record["versions"]["matcha-gnn"] == versions()["matcha-gnn"]


def test_the_projects_own_checkout_is_named_and_its_monitor_not_run(repository):
    package = own(repository)
    assert provenance.source_tree(package) == repository
    head = git(repository, "rev-parse", "--short=12", "HEAD")
    assert provenance.commit_of(package) == head
    assert not was_asked(repository)


def test_only_changed_sources_make_a_commit_dirty(repository):
    package = own(repository)
    (repository / "records").write_text("another record\n")
    assert not provenance.commit_of(package).endswith("-dirty")
    provenance.commit_of.cache_clear()
    (package / "__init__.py").write_text("second\n")
    assert provenance.commit_of(package).endswith("-dirty")


@pytest.mark.parametrize("text", ["", "[project", 'project = "x"', '[project]\nname = "other"'])
def test_a_tree_of_another_project_is_none_of_ours(text, repository):
    package = own(repository)
    (repository / "pyproject.toml").write_text(text)
    assert provenance.source_tree(package) is None
    assert provenance.commit_of(package) is None
    assert not was_asked(repository)


def test_a_broken_checkout_does_not_make_git_look_above(repository):
    inner = repository / "inner"
    shutil.copytree(repository / "src", inner / "src")
    (inner / ".git").mkdir()
    assert provenance.commit_of(own(inner)) is None


def test_a_copy_without_history_can_be_told_its_commit(monkeypatch):
    monkeypatch.setenv("MATCHA_COMMIT", "abc")
    assert provenance.commit() == "abc"
