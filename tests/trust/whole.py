"""The whole battery, by `make trust`: bad calls, bad command lines, damaged files.

Run: python tests/trust/whole.py [--mutations 1300] [--out results/trust.json]
"""

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import calls
import lines
import mutations

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


def main() -> int:
    """Run all, write the record, and say whether something was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mutations", type=int, default=1300, help="of each format")
    parser.add_argument("--out", type=Path, default=Path("results/trust.json"))
    given = parser.parse_args()
    out, record = given.out.resolve(), dict[str, Any]()
    parts = {
        "calls": bad_calls,
        "lines": bad_lines,
        "files": lambda: damaged_files(given.mutations),
    }
    for name, run in parts.items():
        with tempfile.TemporaryDirectory() as place:
            # Names such as ../evil stay inside.
            inner = Path(place) / "inner"
            inner.mkdir()
            os.chdir(inner)
            start = time.perf_counter()
            record[name] = run() | {"seconds": round(time.perf_counter() - start)}
            os.chdir("/")
        shown = {k: v for k, v in record[name].items() if k in ("tried", "refused", "done", "same")}
        print(name, shown, len(record[name]["wrong"]), "wrong", flush=True)
    write_json(out, record | {"versions": versions()})
    return int(any(record[name]["wrong"] for name in parts))


if __name__ == "__main__":
    sys.exit(main())
