"""The whole battery, by `make trust`: bad calls and lines, damaged files, kills, extreme numbers.

Random graphs of tests/properties are run, too, with five times as many examples.

Run: python tests/trust/whole.py [--only PART ...] [--mutations 1300] [--kills 120] [--out FILE]

With --only the other parts of the record stay as they are.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import calls
import lines
import mutations
import numerics
import pytest

from matcha_gnn.cli import asking, commands
from matcha_gnn.io import outputs
from matcha_gnn.io.jsontext import write_json
from matcha_gnn.io.provenance import versions


def bad_calls() -> dict[str, Any]:
    """Every argument with every bad value."""
    tally, wrong = Counter[str](), []
    for case in calls.cases():
        found = calls.outcome(case)
        good = calls.is_good(case, found)
        tally[found if good else "wrong"] += 1
        wrong += [] if good else [f"{case}: {found}"]
    return {"tried": tally.total(), **tally, "wrong": wrong}


def bad_lines() -> dict[str, Any]:
    """Every option with every bad value."""
    tally, wrong = Counter[str](), []
    lines.prepare(Path.cwd())
    # A page takes a second, and has tests of its own.
    for module in (commands, asking, outputs):
        module.can_report = lambda tell: False
    for line in lines.lines():
        found = lines.outcome(line)
        tally[{0: "done", 2: "refused"}.get(found.code, "wrong")] += 1  # type: ignore[call-overload]
        wrong += [] if found.good else [f"{line}: {found.code} {found.complaint[-200:]}"]
    return {"tried": tally.total(), **tally, "wrong": wrong}


def damaged_files(number: int) -> dict[str, Any]:
    """So many damaged copies of each file."""
    found: dict[str, Any] = {"tried": 0, "refused": 0, "same": 0, "wrong": [], "formats": {}}
    for form in mutations.formats(Path.cwd()):
        tally = mutations.attack(form, number, seed=0, any_meaning=form.name in mutations.FREE)
        found["formats"][form.name] = {"refused": tally.refused, "same": tally.same}
        for name in ("tried", "refused", "same", "wrong"):
            found[name] += getattr(tally, name)
    return found


def killed_runs(number: int) -> dict[str, Any]:
    """So many runs that are killed at random, and one at every file; and started again."""
    record = Path("record.json").resolve()
    script = Path(__file__).with_name("kills.py")
    subprocess.run([sys.executable, script, str(number), "1", "0", record], check=True)
    found: dict[str, Any] = json.loads(record.read_text())
    return found


def extreme_graphs() -> dict[str, Any]:
    """Every extreme graph with every method, strategy and backbone."""
    tally, wrong = Counter[str](), []
    for run in dict.fromkeys(numerics.runs()):
        found = numerics.outcome(run)
        tally[found if numerics.is_good(found) else "wrong"] += 1
        wrong += [] if numerics.is_good(found) else [f"{run}: {found}"]
    return {"tried": tally.total(), **tally, "wrong": wrong}


PARTS = ("calls", "lines", "files", "kills", "numerics", "properties")


class _Outcomes:
    """Which tests failed, and how many there were."""

    def __init__(self) -> None:
        self.tried, self.wrong = 0, list[str]()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Called by pytest for the parts of each test."""
        self.tried += report.when == "call"
        self.wrong += [report.nodeid] if report.failed else []


def properties() -> dict[str, Any]:
    """Tests on random graphs, with the profile `trust`."""
    outcomes, folder = _Outcomes(), Path(__file__).parents[1] / "properties"
    options = [f"--rootdir={folder.parents[1]}", "--hypothesis-profile=trust", "-p", "no:xdist"]
    code = pytest.main([str(folder), *options, "-p", "no:cacheprovider"], plugins=[outcomes])
    assert code in (0, 1), "the tests could not be run"
    return {"tried": outcomes.tried, "examples each": 50, "wrong": outcomes.wrong}


def main() -> int:
    """Run all, write the record, and say whether something was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mutations", type=int, default=1300, help="of each format")
    parser.add_argument("--kills", type=int, default=120, help="at random moments")
    parser.add_argument("--out", type=Path, default=Path("results/trust.json"))
    parser.add_argument("--only", nargs="+", default=(), choices=PARTS)
    given = parser.parse_args()
    out, record = given.out.resolve(), dict[str, Any]()
    parts = {
        "calls": bad_calls,
        "lines": bad_lines,
        "files": lambda: damaged_files(given.mutations),
        "kills": lambda: killed_runs(given.kills),
        "numerics": extreme_graphs,
        "properties": properties,
    }
    wanted = [name for name in parts if name in given.only or not given.only]
    for name in wanted:
        with tempfile.TemporaryDirectory() as place:
            # Names such as ../evil stay inside.
            inner = Path(place) / "inner"
            inner.mkdir()
            os.chdir(inner)
            start = time.perf_counter()
            record[name] = parts[name]() | {"seconds": round(time.perf_counter() - start)}
            os.chdir("/")
        shown = {k: v for k, v in record[name].items() if isinstance(v, int)}
        print(name, shown, len(record[name]["wrong"]), "wrong", flush=True)
    kept = json.loads(out.read_text()) if given.only and out.exists() else {}
    write_json(out, kept | record | {"versions": versions()})
    return int(any(record[name]["wrong"] for name in wanted))


if __name__ == "__main__":
    sys.exit(main())
