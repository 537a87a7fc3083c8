"""Mutation testing: which small changes of the source no test notices.

A seeded sample of the changes that cosmic-ray's operators make, each judged by the tests that run
the changed line. Changes are drawn by their text, not by their file, so that commits share them.

Run: python tests/mutants.py results/mutants.json [--number 60] [--seconds 3000] [--processes 2]
"""

import argparse
import ast
import hashlib
import json
import os
import platform
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from importlib.metadata import version
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple

from cosmic_ray.ast import Visitor, ast_nodes, get_ast
from cosmic_ray.operators.provider import OperatorProvider
from coverage import CoverageData

from matcha_paper.provenance import commit

PROJECT = Path(__file__).resolve().parents[1]
PACKAGE = Path("src/matcha_gnn")
LEFT_OUT = ("kernels/gpu.py", "kernels/gpu_programs.py")
"""Compiled by triton; `make gpu` tests them."""
NO_OPERATORS = {"RemoveDecorator", "VariableReplacer", "VariableInserter"}
NOT_COPIED = shutil.ignore_patterns(".[!c]*", "shared", "site", "dist", "__pycache__")
KILLED, SURVIVED, NOT_RUN, NOT_JUDGED = "killed", "survived", "no test runs it", "not judged"
CONTROLS = 6
"""Runs without a change; each must pass."""
COVERAGE_SECONDS, TEST_SECONDS, FILE_SECONDS, PATIENCE = 240.0, 30.0, 0.5, 150.0
"""For a file under coverage; of tests for a change; to load a file; until a run counts as hung."""
PYTEST = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist"]


class Mutant(NamedTuple):
    path: str
    line: int
    before: str
    after: str
    source: str
    scope: frozenset[int]
    """The lines whose tests judge it."""


class Changing(Visitor):
    """Applies an operator at one of the places that it finds."""

    def __init__(self, operator: Any, occurrence: int) -> None:
        self.operator, self.left = operator, occurrence

    def visit(self, node: Any) -> Any:
        for index, _ in enumerate(self.operator.mutation_positions(node)):
            if self.left == 0:
                node = self.operator.mutate(node, index)
            self.left -= 1
        return node


def is_type(node: Any) -> bool:
    """Whether it stands in an annotation, which no test can notice."""
    while node.parent is not None:
        sibling = node.get_previous_sibling()
        sign = {"tfpdef": ":", "annassign": ":", "funcdef": "->"}.get(node.parent.type)
        if sibling is not None and sign == getattr(sibling, "value", ""):
            return True
        node = node.parent
    return False


def scope_of(tree: ast.Module, line: int) -> frozenset[int]:
    """A statement within a function; of a signature its function; else every function."""
    statements = [node for node in ast.walk(tree) if isinstance(node, ast.stmt)]
    functions = [node for node in statements if isinstance(node, ast.FunctionDef)]
    bodies = [range(node.body[0].lineno, node.end_lineno + 1) for node in functions]
    around = [node for node in statements if node.lineno <= line <= node.end_lineno]
    inner = min(around, key=lambda node: node.end_lineno - node.lineno, default=tree)
    if isinstance(inner, ast.FunctionDef):
        return frozenset(range(inner.body[0].lineno, inner.end_lineno + 1))
    if not any(line in body for body in bodies):
        return frozenset(each for body in bodies for each in body)
    last = inner.body[0].lineno - 1 if hasattr(inner, "body") else inner.end_lineno
    return frozenset(range(inner.lineno, max(last, inner.lineno) + 1))


def places_of(path: Path) -> Iterator[tuple[str, Path, int, list[tuple[Any, int]]]]:
    """Where a file can be changed: the text there, the line, and the changes."""
    source = (PROJECT / path).read_text()
    lines, provider = source.splitlines(), OperatorProvider()
    nodes = list(ast_nodes(get_ast(source)))
    places = defaultdict(list)
    for name in sorted(set(provider) - NO_OPERATORS):
        operator = provider[name]()
        found = [(node, at) for node in nodes for at, _ in operator.mutation_positions(node)]
        for occurrence, (node, at) in enumerate(found):
            if not is_type(node):
                places[at].append((operator, occurrence))
    for (line, column), changes in places.items():
        text = lines[line - 1].strip()
        yield f"{column - lines[line - 1].index(text)} {text}", path, line, changes


def mutant_of(text: str, path: Path, line: int, changes: list[tuple[Any, int]]) -> Mutant:
    source = (PROJECT / path).read_text()
    operator, occurrence = random.Random(text).choice(changes)
    changed = Changing(operator, occurrence).walk(get_ast(source)).get_code()
    before, after = (code.splitlines()[line - 1].strip() for code in (source, changed))
    return Mutant(str(path), line, before, after, changed, scope_of(ast.parse(source), line))


def drawn(number: int, seed: int) -> list[Mutant]:
    """So many of gamma, and as many of everything else."""
    halves: list[list[Any]] = [[], []]
    for file in sorted((PROJECT / PACKAGE).rglob("*.py")):
        inside = file.relative_to(PROJECT / PACKAGE)
        if str(inside) not in LEFT_OUT:
            halves[inside.parts[0] == "gamma"] += places_of(file.relative_to(PROJECT))
    for half in halves:
        half.sort(key=lambda place: hashlib.sha256(f"{seed} {place[0]}".encode()).digest())
    pairs = zip(*(half[:number] for half in halves), strict=True)
    return [mutant_of(*place) for pair in pairs for place in pair]


def run(command: list[str], folder: Path, until: float) -> tuple[int | None, str]:
    """Its code and what it prints; no code where it took too long."""
    places = [str(folder / name) for name in ("src", "paper/src", "tests")]
    path = os.pathsep.join([*places, os.environ.get("PYTHONPATH", "")])
    settings = {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=os.environ | settings,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        code = None
        with suppress(subprocess.TimeoutExpired):
            code = process.wait(max(until - time.monotonic(), 0))
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        output.seek(0)
        return code, output.read()


class Tests:
    """Which tests run which of the wanted lines; what a fixture runs counts for its file."""

    def __init__(self, wanted: dict[str, set[int]]) -> None:
        self.wanted = wanted
        self.seconds = Counter[str]()
        self.sizes = Counter[str]()
        self.covering: dict[tuple[str, int], set[str]] = defaultdict(set)
        self.left_out: list[str] = []

    def record(self, file: str, folder: Path) -> None:
        """Run a file's tests under coverage."""
        data = folder / ".coverage"
        data.unlink(missing_ok=True)
        options = ["--cov=matcha_gnn", "--cov-context=test", f"--cov-config={os.devnull}"]
        shown = ["--cov-report=", "-rA", "-vv", "--durations=0", "--durations-min=0"]
        until = time.monotonic() + COVERAGE_SECONDS
        _, output = run([*PYTEST, file, *options, *shown], folder, until)
        passed = set(re.findall(r"^PASSED (.*)$", output, re.MULTILINE))
        for seconds, test in re.findall(r"^([\d.]+)s \w+ +(.*)$", output, re.MULTILINE):
            self.seconds[test] += float(seconds)
        if not data.exists():
            self.left_out.append(file)
            return
        coverage = CoverageData(str(data))
        coverage.read()
        for name in coverage.measured_files():
            path = str(Path(name).relative_to(folder))
            for line, contexts in coverage.contexts_by_lineno(name).items():
                tests = [each.removesuffix("|run") for each in contexts if each.endswith("|run")]
                self.sizes.update(tests)
                if line in self.wanted.get(path, ()):
                    is_shared = any(each.endswith("|setup") for each in contexts)
                    self.covering[path, line] |= passed if is_shared else passed & set(tests)

    def of(self, mutant: Mutant) -> list[str]:
        """Those that run the least of the package first, by file, within the time for a change."""
        found = {test for line in mutant.scope for test in self.covering[mutant.path, line]}
        chosen: dict[str, list[str]] = {}
        left = TEST_SECONDS
        for test in sorted(found, key=lambda test: (self.sizes[test], test)):
            file = test.split("::")[0]
            cost = self.seconds[test] + (0 if file in chosen else FILE_SECONDS)
            if cost <= left or not chosen:
                chosen.setdefault(file, []).append(test)
                left -= cost
        return [test for tests in chosen.values() for test in tests]


def judge(mutant: Mutant, tests: list[str], end: float, folder: Path) -> str:
    """Run the tests with the change in place."""
    if not tests:
        return NOT_RUN
    file = folder / mutant.path
    original = file.read_text()
    (folder / "tests.txt").write_text("\n".join(tests))
    file.write_text(mutant.source)
    until = time.monotonic() + PATIENCE
    code, _ = run([*PYTEST, "-x", "-q", "@tests.txt"], folder, min(until, end))
    file.write_text(original)
    if code is None:
        return NOT_JUDGED if until > end else KILLED
    return SURVIVED if code == 0 else KILLED


def side_by_side(jobs: list[Callable[[Path], Any]], folders: list[Path], end: float) -> list[Any]:
    """The results; None for those that the time does not reach."""
    free = SimpleQueue[Path]()
    for folder in folders:
        free.put(folder)

    def one(job: Callable[[Path], Any]) -> Any:
        folder = free.get()
        try:
            return job(folder) if time.monotonic() < end else None
        finally:
            free.put(folder)

    with ThreadPoolExecutor(len(folders)) as pool:
        return list(pool.map(one, jobs))


def files_of_tests() -> list[str]:
    """The longest first; doctests of the source are one of them."""
    files = [*PROJECT.glob("tests/**/test_*.py"), *PROJECT.glob("paper/tests/**/test_*.py")]
    files.sort(key=lambda file: -file.stat().st_size)
    return ["src", *(str(file.relative_to(PROJECT)) for file in files)]


def record(arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Draw, find the tests, judge."""
    end = time.monotonic() + arguments.seconds
    mutants = drawn(arguments.number, arguments.seed)
    folders = [folder / str(number) for number in range(arguments.processes)]
    for copy in folders:
        shutil.copytree(PROJECT, copy, ignore=NOT_COPIED)
        hashed = ["--invalidation-mode", "checked-hash"]
        subprocess.run([sys.executable, "-m", "compileall", "-q", *hashed, "src"], cwd=copy)
    wanted: dict[str, set[int]] = defaultdict(set)
    for mutant in mutants:
        wanted[mutant.path] |= mutant.scope
    tests = Tests(wanted)
    files = arguments.tests or files_of_tests()
    side_by_side([partial(tests.record, file) for file in files], folders, end)
    controls = [each._replace(source=(PROJECT / each.path).read_text()) for each in mutants]
    tried = [*controls[:CONTROLS], *mutants]
    jobs = [partial(judge, mutant, tests.of(mutant), end) for mutant in tried]
    outcomes = [each or NOT_JUDGED for each in side_by_side(jobs, folders, end)]
    if KILLED in outcomes[:CONTROLS]:
        raise SystemExit("tests fail without a change")
    modules, scores = defaultdict(Counter), defaultdict(Counter)
    survivors = []
    for mutant, outcome in zip(mutants, outcomes[CONTROLS:], strict=True):
        half = "gamma" if "/gamma/" in mutant.path else "core"
        for count in (modules[mutant.path], scores[half], scores["all"]):
            count[outcome] += 1
        if outcome in (SURVIVED, NOT_RUN):
            place = f"{mutant.path}:{mutant.line}"
            survivors.append([outcome, place, mutant.before, mutant.after])
    return {
        "controls": dict(Counter(outcomes[:CONTROLS])),
        "scores": {half: {"score": _score(count), **count} for half, count in scores.items()},
        "files without result": tests.left_out,
        "modules": modules,
        "survivors: outcome, place, before, after": sorted(survivors),
    }


def _score(count: Counter[str]) -> float | None:
    judged = count.total() - count[NOT_JUDGED]
    return round(count[KILLED] / judged, 4) if judged else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("record", type=Path)
    parser.add_argument("--number", type=int, default=60, help="changes of gamma, and of the rest")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=3000.0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--tests", nargs="*", help="files of tests; all of both distributions")
    parser.add_argument("--commit", default=commit())
    arguments = parser.parse_args()
    told = {key: value for key, value in vars(arguments).items() if key != "record"}
    names = ("torch", "torch_geometric", "numpy", "pytest", "cosmic-ray", "coverage")
    versions = {"python": platform.python_version()} | {name: version(name) for name in names}
    with tempfile.TemporaryDirectory() as folder:
        found = record(arguments, Path(folder))
    whole = {**told, "versions": versions, **found}
    arguments.record.write_text(json.dumps(whole, indent=1) + "\n")


if __name__ == "__main__":
    main()
