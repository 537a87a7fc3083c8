"""Imports only go one way, and the package stays light to import."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import matcha_gnn

ROOT = Path(matcha_gnn.__file__).parent

# A module may import from its own level and from lower ones.
LEVELS = {
    "errors": 0,
    "typing": 0,
    "extras": 0,
    "alarms": 0,
    "files": 0,
    "jsontext": 0,
    "progress": 0,
    "provenance": 0,
    "registry": 0,
    "timing": 0,
    "functional": 0,
    "kernels": 0,
    "parts": 0,
    "target": 0,
    "graph": 1,
    "hops": 2,
    "mixture": 1,
    "summary": 2,
    "backbones": 3,
    "modelfile": 3,
    "delta": 3,
    "methods": 4,
    "stored": 5,
    "evidence": 5,
    "losses": 5,
    "callbacks": 6,
    "result": 6,
    "rounds": 7,
    "protection": 8,
    "adaptation": 9,
    "metrics": 10,
    "theory": 10,
    "datasets": 10,
    "diagnosis": 11,
    "train": 11,
    "testing": 12,
    "experiments": 12,
    "report": 13,
    "outputs": 13,
    "distributed": 13,
    "figures": 13,
    "console": 13,
    "commands": 14,
    "cluster": 15,
    "reproduction": 15,
    "cli": 16,
    "__main__": 17,
}
# The result draws its own page, on demand: the one import that goes up, inside a function.
ALLOWED_UP = {("result", "report")}


def modules() -> list[Path]:
    return [p for p in ROOT.rglob("*.py") if p != ROOT / "__init__.py"]


def imported_parts(path: Path) -> set[str]:
    parts = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "matcha_gnn":
            parts |= {alias.name for alias in node.names if not alias.name.startswith("_")}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("matcha_gnn."):
            parts.add(node.module.split(".")[1])
        elif isinstance(node, ast.Import):
            names = [alias.name.split(".") for alias in node.names]
            parts |= {n[1] for n in names if n[0] == "matcha_gnn" and len(n) > 1}
    return parts


def part_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_go_down_only(path):
    own = part_of(path)
    assert own in LEVELS, f"{own} has no level: add it to LEVELS"
    for part in imported_parts(path):
        up = LEVELS[part] > LEVELS[own]
        assert not up or (own, part) in ALLOWED_UP, f"{own} imports {part}, which lies above it"


def test_adaptation_knows_no_method_or_backbone_by_name():
    tree = ast.parse((ROOT / "adaptation.py").read_text())
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    assert "isinstance" not in names
    assert "GPRGNN" not in names


def test_only_datasets_metrics_and_training_read_labels():
    readers = set()
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and node.attr == "y":
                readers.add(part_of(path))
    # experiments, commands and cluster hand labels on to be counted; testing compares with and
    # without them.
    assert readers <= {
        "datasets",
        "metrics",
        "train",
        "experiments",
        "figures",
        "commands",
        "cluster",
        "testing",
    }


def loaded_after(statement: str) -> set[str]:
    code = f"{statement}\nimport sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_the_package_or_the_command_does_not_import_torch():
    assert "torch" not in loaded_after("import matcha_gnn")
    assert "torch" not in loaded_after("import matcha_gnn.cli")


def test_using_the_library_does_not_import_plotting_command_line_or_compilers():
    loaded = loaded_after("import matcha_gnn as mg; mg.adapt; mg.fit; mg.GPRGNN")
    assert not loaded & {"matplotlib", "typer", "triton", "numba", "torch_geometric"}


def test_every_public_name_resolves():
    assert {name for name in matcha_gnn.__all__ if getattr(matcha_gnn, name) is None} == set()
    assert set(matcha_gnn._HOME) | set(matcha_gnn._MODULES) == set(matcha_gnn.__all__)


def test_adapt_is_the_function_whatever_was_imported_first():
    code = "import matcha_gnn.adaptation, matcha_gnn as mg; print(callable(mg.adapt))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True"
