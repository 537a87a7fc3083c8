import gc
import io
import sys
from types import SimpleNamespace

from matcha_gnn.monitoring import progress
from matcha_gnn.monitoring.progress import LateBar


class Terminal(io.StringIO):
    def isatty(self):
        return True


def on_terminal(monkeypatch):
    # In the test itself: pytest puts its own stream back after the fixtures.
    written = Terminal()
    monkeypatch.setattr("sys.stderr", written)
    monkeypatch.setenv("TERM", "xterm")
    return written


def test_a_bar_is_drawn_on_a_terminal(monkeypatch):
    terminal = on_terminal(monkeypatch)
    bar = LateBar("adapting", delay=0)
    for done in range(1, 4):
        bar(done, 3)
    assert "adapting" in terminal.getvalue()


def test_short_runs_and_other_places_stay_silent(monkeypatch):
    terminal = on_terminal(monkeypatch)
    LateBar("adapting", delay=60)(1, 2)
    assert terminal.getvalue() == ""
    elsewhere = io.StringIO()
    monkeypatch.setattr("sys.stderr", elsewhere)
    LateBar("adapting", delay=0)(1, 2)
    assert elsewhere.getvalue() == ""


def test_a_run_that_ends_early_removes_its_bar(monkeypatch):
    on_terminal(monkeypatch)
    bar = LateBar("adapting", delay=0)
    bar(1, 3)
    bars = bar._bar._bars
    assert bars.live.is_started
    del bar
    gc.collect()
    assert not bars.live.is_started


def test_a_notebook_shows_a_bar_as_well(monkeypatch):
    written = io.StringIO()
    monkeypatch.setattr("sys.stderr", written)
    shell = SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setattr(progress, "find_spec", lambda name: None if "widgets" in name else name)
    assert progress.in_notebook()
    bar = LateBar("adapting", delay=0)
    for done in range(1, 4):
        bar(done, 3)
    assert "adapting" in written.getvalue()
    assert "1/3" in written.getvalue()


def test_a_shell_on_a_terminal_is_no_notebook(monkeypatch):
    shell = SimpleNamespace()
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    assert not progress.in_notebook()
    monkeypatch.delitem(sys.modules, "IPython")
    assert not progress.in_notebook()
