"""Bad command lines: every option of every command gets every bad value, one at a time."""

import contextlib
import io
import os
import random
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import typer
from matcha_gnn.testing import tiny_graph, trained_model

import matcha_gnn as mg
from matcha_gnn.cli.app import app, main

VALUES = (
    *("", " ", "x", "-1", "0", "1.5", "nan", "inf", "-inf", "1e999", "99999999999999999999"),
    *("true", "False", "[]", "{}", "../evil", "/", ".", "/dev/null", "missing/file.npz"),
    *("no=pe", "=", "lr=nan", "k=[", "é", "\x1b[31m", "a,b", "1,2", "m.safetensors", "g.npz"),
)
WORK = {
    "train": ["train", "g.npz", "-o", "n.safetensors", "--epochs", "1"],
    "adapt": [
        *("adapt", "m.safetensors", "t.npz", "-o", "out", "--force", "--json"),
        *("--strategy", "matcha", "--set", "rounds=1"),
    ],
    "answer": ["answer", "asked", "answers.csv"],
    "inspect": ["inspect", "t.npz", "--model", "m.safetensors"],
    "make-graph": ["make-graph", "csbm", "--nodes", "40", "-o", "new.npz"],
    "watch": ["watch", "m.safetensors", "graphs", "-o", "watched", "--once"],
}
"""One line for each command that works."""
UNUSED = ("--help", "--gather", "--distributed", "--timeout", "--once")
"""Options of runs over several processes, and of those that wait."""


class Line(NamedTuple):
    """A command line."""

    words: tuple[str, ...]

    def __str__(self) -> str:
        return " ".join(map(repr, self.words))


class Outcome(NamedTuple):
    """How a command ended."""

    code: object
    complaint: str

    @property
    def good(self) -> bool:
        """Done, or refused in one line."""
        lines = self.complaint.strip().splitlines()
        last = lines[-1] if lines else ""
        return self.code == 0 or (self.code == 2 and last.startswith("matcha: "))


def prepare(folder: Path) -> None:
    """Files that the lines name."""
    mg.save_model(trained_model(), folder / "m.safetensors")
    mg.write_graph(tiny_graph(0.8, seed=0), folder / "g.npz")
    mg.write_graph(tiny_graph(), folder / "t.npz")
    (folder / "graphs").mkdir()
    mg.write_graph(tiny_graph(), folder / "graphs" / "a.npz")
    # For an old file nobody waits to see whether it still grows.
    os.utime(folder / "graphs" / "a.npz", (1e9, 1e9))
    (folder / "answers.csv").write_text("node,label\n0,x\n")
    ask = ["adapt", "m.safetensors", "t.npz", "-o", "asked", "--ask", "3", "--json"]
    assert outcome(Line(tuple(ask))).code == 0


def options() -> dict[str, list[str]]:
    """Options of every command, by its name."""
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    return {
        name: [
            each.opts[0]
            for each in commands[name].params
            if each.opts[0].startswith("-") and each.opts[0] not in UNUSED
        ]
        for name in WORK
    }


def lines() -> Iterator[Line]:
    """All of them, in a fixed order."""
    for name, found in options().items():
        yield from (Line((name, *words)) for words in ((), ("--nope",), ("", ""), ("x",) * 5))
        for place in range(1, len(WORK[name])):
            for value in VALUES:
                yield Line((*WORK[name][:place], value, *WORK[name][place + 1 :]))
        for option in found:
            yield Line((*WORK[name], option))
            yield from (Line((*WORK[name], option, value)) for value in VALUES)


def some(number: int, seed: int) -> list[Line]:
    """A seeded share of them."""
    return random.Random(seed).sample(list(lines()), number)


def outcome(line: Line) -> Outcome:
    """Run a line in this process; what is raised past the command is its outcome."""
    said, complaint = io.StringIO(), io.StringIO()
    code: object = None
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(said),
        contextlib.redirect_stderr(complaint),
    ):
        warnings.simplefilter("ignore")
        try:
            main(list(line.words))
        except SystemExit as end:
            code = end.code
        except BaseException as error:
            code = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
    return Outcome(code, complaint.getvalue())
