# ruff: noqa: E501
"""Mutation testing: small changes of the numerical code that its tests should notice.

A seeded sample of operators, comparisons and numbers is changed, one at a time, in a copy of the
source, and those tests of the changed part are run that run the changed line. A change that no test
notices is listed, with the reason why that is right where one is known.

Run: python tests/trust/mutants.py [--number 30] [--parts functional losses] [--out FILE]
"""

import argparse
import ast
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from matcha_gnn.io.jsontext import write_json

PROJECT = Path(__file__).parents[2]
PACKAGE = Path("src/matcha_gnn")
TESTS = {
    "functional": [
        "tests/test_functional.py",
        "tests/gamma/losses",
        "tests/properties/test_sums.py",
    ],
    "losses": ["tests/gamma/losses", "tests/properties/test_sums.py", "tests/gamma/strategies"],
    "strategies": ["tests/gamma/strategies", "tests/properties/test_runs.py"],
    "evidence": ["tests/evidence", "tests/gamma/strategies/test_guarded.py"],
}
PATIENCE = 300
"""Seconds; a change that makes tests run longer is noticed, too."""
OPERATORS = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.And: ast.Or,
    ast.Or: ast.And,
}


Runs = dict[tuple[str, int], list[str]]
"""The ids of the tests that run a line of a file; all, where it is empty."""

_SEARCH = "a choice of how to search; the strength found is nearly as good either way"
_EQUAL = "differs for numbers that are equal to the last digit alone"

TOLERATED: dict[str, str] = {
    "src/matcha_gnn/evidence/probe.py: 1 → 2": _SEARCH,
    "src/matcha_gnn/evidence/probe.py: 4 → 5": _SEARCH,
    "src/matcha_gnn/evidence/shift_kinds.py: 0.0 → 0.1": "of a mixture that is not taken",
    "src/matcha_gnn/gamma/strategies/closed_form.py: size > 0 → size >= 0": "γ that is not finite is "
    "taken back either way",
    "src/matcha_gnn/gamma/strategies/matcha.py: 1 → 2": "versions are raised by hand",
    "src/matcha_gnn/gamma/losses/sure.py: 1 → 2": "blocks of two rows where one fits; sums are the same",
    "src/matcha_gnn/gamma/losses/clusters.py: lowest < loss - functional.rounding_of(hops.summed_in) → "
    "lowest <= loss - functional.rounding_of(hops.summed_in)": _EQUAL,
    "src/matcha_gnn/gamma/strategies/belief.py: "
    "task.wanted.is_default or summary is None → task.wanted.is_default and summary is None": ""
    "accuracy has no such labels either way",
}
"""Why a change that no test notices is right, by its file and what it is."""


class Mutant(NamedTuple):
    """One change."""

    path: str
    line: int
    what: str
    source: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.what}"


def mutants(path: Path) -> Iterator[Mutant]:
    """Every change of a file; annotations and texts stay as they are."""
    text = (PROJECT / path).read_text()
    for place in range(len(_places(ast.parse(text)))):
        tree = ast.parse(text)
        node = _places(tree)[place]
        before = ast.unparse(node)
        _change(node)
        said = f"{before} → {ast.unparse(node)}"
        yield Mutant(str(path), getattr(node, "lineno", 0), said, ast.unparse(tree))


def _places(tree: ast.AST) -> list[ast.AST]:
    found: list[ast.AST] = []
    _collect(tree, found)
    return found


def _collect(node: ast.AST, found: list[ast.AST]) -> None:
    operator = node.op if isinstance(node, ast.BinOp | ast.BoolOp) else None
    operator = node.ops[0] if isinstance(node, ast.Compare) else operator
    is_number = isinstance(node, ast.Constant) and type(node.value) in (int, float)
    if is_number or type(operator) in OPERATORS:
        found.append(node)
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "type_params"):
            continue
        if isinstance(value, ast.Raise | ast.Assert):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                _collect(child, found)


def _change(node: ast.AST) -> None:
    if isinstance(node, ast.Constant):
        node.value = node.value + 1 if isinstance(node.value, int) else node.value * 2 + 0.1
    elif isinstance(node, ast.Compare):
        node.ops[0] = OPERATORS[type(node.ops[0])]()
    elif isinstance(node, ast.BinOp | ast.BoolOp):
        node.op = OPERATORS[type(node.op)]()


def drawn(part: str, number: int, seed: int, runs: Runs) -> list[Mutant]:
    """A seeded sample of the changes of a part, in lines that tests of the part run."""
    place = PACKAGE / part
    whole = PROJECT / place
    paths = (
        [place.with_suffix(".py")]
        if not whole.is_dir()
        else sorted(place / path.name for path in whole.glob("*.py") if path.name != "__init__.py")
    )
    every = [mutant for path in paths for mutant in mutants(path)]
    possible = [mutant for mutant in every if (mutant.path, mutant.line) in runs]
    return random.Random(f"{part} {seed}").sample(possible, min(number, len(possible)))


OPTIONS = ("-x", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", "-m", "not slow")


def _environment(copy: Path) -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(copy / "src"), "OMP_NUM_THREADS": "1"}


def runs_of(tests: list[str], copy: Path) -> Runs:
    """Which tests run each line; none where a line runs at import, which concerns all."""
    settings = copy / "coverage.ini"
    settings.write_text("[run]\nsource_pkgs = matcha_gnn\ndynamic_context = test_function\n")
    command = [sys.executable, "-m", "coverage"]
    given = {"cwd": copy, "env": _environment(copy), "check": True}
    options = [f"--rcfile={settings}", "--data-file=lines"]
    subprocess.run([*command, "run", *options, "-m", "pytest", *OPTIONS, *tests], **given)
    subprocess.run([*command, "json", *options, "--show-contexts", "-o", "lines.json"], **given)
    files = {
        path.stem: str(path.relative_to(copy))
        for test in tests
        for path in ((copy / test).rglob("test_*.py") if (copy / test).is_dir() else [copy / test])
    }
    found: Runs = {}
    for path, lines in json.loads((copy / "lines.json").read_text())["files"].items():
        for line, contexts in lines["contexts"].items():
            names = [context.split(".")[-2:] for context in contexts if "." in context]
            # Inside a test of hypothesis the context is a function of its own.
            whole = [test for test in tests if "properties" in test]
            ids = [
                id
                for module, name in names
                for id in ([f"{files[module]}::{name}"] if module in files else whole)
            ]
            found[path, int(line)] = [] if "" in contexts else sorted(set(ids))
    # A test that cannot be found would count as one that notices.
    every = sorted({id for ids in found.values() for id in ids})
    collect = [sys.executable, "-m", "pytest", *OPTIONS, "--collect-only", *every]
    subprocess.run(collect, cwd=copy, env=_environment(copy), check=True, capture_output=True)
    return found


def is_noticed(mutant: Mutant, tests: list[str], copy: Path) -> bool:
    """Whether a test fails, or takes for ever, with the change."""
    path = copy / mutant.path
    whole = path.read_text()
    path.write_text(mutant.source)
    command = [sys.executable, "-m", "pytest", *OPTIONS, *tests]
    given = {"cwd": copy, "env": _environment(copy), "capture_output": True}
    try:
        ended = subprocess.run(command, timeout=PATIENCE, **given)
    except subprocess.TimeoutExpired:
        return True
    finally:
        path.write_text(whole)
    assert ended.returncode in (0, 1, 2, 4), ended.stdout
    return ended.returncode != 0


def main() -> None:
    """Try a sample of each part and write the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--number", type=int, default=30, help="of each part")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--parts", nargs="+", default=list(TESTS), choices=TESTS)
    parser.add_argument("--out", type=Path, default=Path("results/mutants.json"))
    given = parser.parse_args()
    record: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as place:
        copy = Path(place)
        for name in ("src", "tests"):
            shutil.copytree(PROJECT / name, copy / name)
        for name in ("pyproject.toml", "conftest.py"):
            shutil.copy(PROJECT / name, copy / name)
        for part in given.parts:
            runs = runs_of(TESTS[part], copy)
            sample = drawn(part, given.number, given.seed, runs)
            survivors = {}
            for mutant in sample:
                tests = runs[mutant.path, mutant.line] or TESTS[part]
                if not is_noticed(mutant, tests, copy):
                    reason = TOLERATED.get(f"{mutant.path}: {mutant.what}", "not explained")
                    survivors[str(mutant)] = reason
                    print(mutant, reason, flush=True)
            score = round(1 - len(survivors) / len(sample), 3)
            record[part] = {"tried": len(sample), "score": score, "survivors": survivors}
            print(part, len(sample), score, flush=True)
    write_json(given.out, record)


if __name__ == "__main__":
    main()
