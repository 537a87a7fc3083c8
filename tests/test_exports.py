"""A new method, strategy, loss, backbone or data set is one file and one line in its package."""

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import matcha_gnn as mg
from matcha_gnn.cli.options import names_of
from matcha_gnn.datasets.catalogue import known_graphs
from matcha_gnn.gamma.losses import LOSSES
from matcha_gnn.gamma.methods import METHODS
from matcha_gnn.gamma.models import BACKBONES
from matcha_gnn.gamma.strategies import STRATEGIES

PROJECT, PACKAGE = Path(__file__).parents[1], Path(mg.__file__).parent
REGISTRIES = {
    "backbones": BACKBONES,
    "losses": LOSSES,
    "methods": METHODS,
    "strategies": STRATEGIES,
}


@pytest.mark.parametrize("package", REGISTRIES)
def test_what_is_registered_is_public_and_documented(package):
    api = (PROJECT / "docs" / "api.md").read_text()
    assert REGISTRIES[package]
    for kind in REGISTRIES[package].values():
        assert getattr(mg, kind.__name__) is kind
        assert kind.__name__ in mg.__all__
        assert f"- `mg.{kind.__name__}`\n" in api, "add it to docs/api.md"


@pytest.mark.parametrize("package", [*REGISTRIES, "datasets"])
def test_the_help_names_what_is_registered(package):
    named = set(names_of(package).split(", "))
    known = set(known_graphs() if package == "datasets" else REGISTRIES[package])
    if package == "datasets":
        assert known <= named
    else:
        assert named == known - {"none"}


def test_type_checkers_see_the_names_that_exist():
    tree = ast.parse((PACKAGE / "__init__.py").read_text())
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    names = {alias.asname or alias.name for node in imports for alias in node.names}
    stars = {node.module for node in imports if node.names[0].name == "*"}
    assert stars == set(mg._PACKAGES)
    homes = {name for home, given in mg._HOME.items() if home not in stars for name in given}
    assert names - {"*"} == homes | set(mg._MODULES)


def test_a_name_that_does_not_exist_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = mg.Nothing
    assert {"adapt", "T3A", "Guarded"} <= set(dir(mg))


NEW = {
    "methods": (
        "from matcha_gnn.gamma.methods.erm import ERM\n\nclass New(ERM):\n    name = 'new'\n"
    ),
    "strategies": (
        "from dataclasses import dataclass\n"
        "from matcha_gnn.gamma.strategies.matcha import Matcha\n\n"
        "@dataclass(frozen=True)\nclass New(Matcha):\n    name = 'new'\n"
    ),
    "losses": "from matcha_gnn.gamma.losses.pic import PIC\n\nclass New(PIC):\n    name = 'new'\n",
    "backbones": (
        "from matcha_gnn.gamma.models.gprgnn import GPRGNN\n\nclass New(GPRGNN):\n    pass\n"
    ),
    "datasets": (
        "from torch_geometric.data import Data\nfrom matcha_gnn.datasets.csbm import csbm\n\n"
        "def new() -> Data:\n    return csbm(50, 3)\n"
    ),
}
FOLDERS = {name: f"gamma/{name}" for name in ("methods", "strategies", "losses")}
FOLDERS["backbones"] = "gamma/models"
USE = """
import matcha_gnn as mg
from matcha_gnn.cli.options import names_of
from matcha_gnn.gamma.models import BACKBONES
graph = mg.datasets.csbm(100, 4, seed=0)
model = mg.GPRGNN(4, 2)
for package in ("methods", "strategies", "losses", "backbones", "datasets"):
    assert "new" in names_of(package).split(", "), package
assert mg.datasets.make_graph("new").num_nodes == 50
assert "New" in mg.__all__ and BACKBONES["new"].__name__ == "New"
"""


def test_one_file_and_one_line_are_enough(tmp_path):
    shutil.copytree(PACKAGE, tmp_path / "matcha_gnn")
    for package, text in NEW.items():
        place = FOLDERS.get(package, package)
        folder, dotted = tmp_path / "matcha_gnn" / place, place.replace("/", ".")
        (folder / "new.py").write_text(text)
        name = "new" if package == "datasets" else "New"
        exports = folder / "__init__.py"
        heading, rest = exports.read_text().split("\n\n", 1)
        line = f"from matcha_gnn.{dotted}.new import {name} as {name}\n"
        exports.write_text(f"{heading}\n\n{line}{rest}")
    done = subprocess.run(
        [sys.executable, "-c", USE], cwd=tmp_path, capture_output=True, text=True,
        env={"PYTHONPATH": str(tmp_path), "PATH": ""},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


IMPORTS = """
import importlib, os, sys
import torch_geometric.data
wrong = []
for name in sys.argv[1:]:
    child = os.fork()
    if child == 0:
        try:
            importlib.import_module(name)
        except ImportError as error:
            print(name, error, file=sys.stderr)
            os._exit(1)
        os._exit(0)
    wrong += [name] if os.waitpid(child, 0)[1] else []
sys.exit(len(wrong))
"""


def test_every_module_can_be_imported_first():
    modules = [path.stem for path in PACKAGE.glob("[!_]*") if path.suffix == ".py" or path.is_dir()]
    names = [f"matcha_gnn.{name}" for name in sorted(modules)]
    assert "matcha_gnn.gamma" in names
    ended = subprocess.run([sys.executable, "-c", IMPORTS, *names], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
