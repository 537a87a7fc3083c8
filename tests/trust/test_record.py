"""The committed record of `make trust`: nothing was wrong, and the page quotes its counts."""

import json
import re
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
LEAST = {"calls": 800, "lines": 600, "files": 20_000, "kills": 100, "numerics": 900}
TITLES = {
    "calls": "bad calls",
    "lines": "bad command lines",
    "files": "damaged files",
    "kills": "kills",
    "numerics": "extreme numbers",
    "properties": "random graphs",
}
RECORD = json.loads((PROJECT / "results" / "trust.json").read_text())


@pytest.mark.parametrize("part", TITLES)
def test_nothing_was_wrong_and_enough_was_tried(part):
    assert RECORD[part]["wrong"] == []
    assert RECORD[part]["tried"] >= LEAST.get(part, 1)


@pytest.mark.parametrize("part", TITLES)
def test_the_page_quotes_the_counts(part):
    page = (PROJECT / "docs" / "guarantees.md").read_text()
    (row,) = (line for line in page.splitlines() if line.startswith(f"| {TITLES[part]} |"))
    tried = row.split("|")[3]
    assert re.sub(r"\D", "", tried) == str(RECORD[part]["tried"])
