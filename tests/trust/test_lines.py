"""A bad command line is refused in one line with exit 2; it never ends in a traceback."""

import lines
import pytest

SHARE = 120


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Names such as ../evil are written beside it."""
    inner = tmp_path / "inner"
    inner.mkdir()
    monkeypatch.chdir(inner)
    lines.prepare(inner)
    # A page takes a second, and has tests of its own.
    for module in ("cli.commands", "cli.asking", "io.outputs"):
        monkeypatch.setattr(f"matcha_gnn.{module}.can_report", lambda tell: False)
    return inner


@pytest.mark.slow
def test_no_bad_line_ends_in_a_traceback(place):
    found = {line: lines.outcome(line) for line in lines.some(SHARE, seed=0)}
    assert [f"{line}: {end}" for line, end in found.items() if not end.good] == []
    assert len({end.code for end in found.values()}) > 1


@pytest.mark.parametrize("name", lines.WORK)
def test_the_lines_that_are_varied_work(place, name):
    end = lines.outcome(lines.Line(tuple(lines.WORK[name])))
    # The one answer there is names no class.
    assert end.code == (2 if name == "answer" else 0), end.complaint


def test_the_battery_would_notice(place, monkeypatch):
    def broken(*args, **options):
        raise TypeError("ours")

    monkeypatch.setattr("matcha_gnn.cli.inspection.read_graph", broken)
    assert not lines.outcome(lines.Line(("inspect", "t.npz"))).good
    assert not lines.Outcome(1, "matcha: interrupted").good


def test_there_are_enough_of_them():
    assert len(list(lines.lines())) > 600
