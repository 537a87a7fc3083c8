import io
import sys

from matcha_gnn import progress
from matcha_gnn.progress import LateBar


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_bar_is_drawn_on_a_terminal_alone_and_after_a_while(monkeypatch):
    monkeypatch.setattr(progress, "DELAY", 0)
    for stream, drawn in ((Terminal(), True), (io.StringIO(), False)):
        monkeypatch.setattr("sys.stderr", stream)
        bar = LateBar("adapting")
        for done in range(1, 4):
            bar(done, 3)
        assert ("adapting" in stream.getvalue()) == drawn
    monkeypatch.setattr(progress, "DELAY", 60)
    monkeypatch.setattr("sys.stderr", Terminal())
    LateBar("adapting")(1, 2)
    assert "adapting" not in sys.stderr.getvalue()
