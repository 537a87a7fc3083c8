"""Every line of the README runs as printed, from top to bottom, in one empty folder."""

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from matcha_gnn import cli

PROJECT = Path(__file__).parents[1]
README = (PROJECT / "README.md").read_text()
BLOCKS = re.findall(r"^```(python)?\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
POINTS = 2.0
"""Last digits depend on the machine: shares and percentages may differ by so many points."""


def shown(block):
    """Lines that comments say are printed: those right after a line that prints."""
    lines = block.splitlines()
    after = zip(lines, lines[1:], strict=False)
    return [then[2:] for line, then in after if line.startswith("print(") and then[:2] == "# "]


def numbers(text):
    """Every number of a line, in points where it is a share."""
    found = [float(number) for number in re.findall(r"\d+(?:\.\d+)?", text)]
    return [100 * number if "%" not in text and number < 1 else number for number in found]


def words(text):
    return re.sub(r"\d+(\.\d+)?", "0", text)


def run_python(block, names):
    if named := re.match(r"# (\w+\.py)\n", block):
        Path(named[1]).write_text(block)
        return
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(block, "README.md", "exec"), names)
    printed = said.getvalue().splitlines()
    assert [words(line) for line in printed] == [words(line) for line in shown(block)]
    for line, comment in zip(printed, shown(block), strict=True):
        pairs = zip(numbers(line), numbers(comment), strict=True)
        assert all(abs(is_ - said) <= POINTS for is_, said in pairs), line


def run_line(line, environment):
    """A line of shell. What sets up the project itself is checked without doing it again."""
    if line.startswith("make "):
        target = line.split()[1]
        subprocess.run(["make", "-n", target], cwd=PROJECT, check=True, capture_output=True)
    elif line.startswith("pip install"):
        (extra,) = re.findall(r"'\.\[(\w+)\]'", line)
        project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
        assert extra in project["optional-dependencies"]
    elif line.startswith("matcha "):
        # In this process, which has paid for the imports.
        with pytest.raises(SystemExit) as stopped:
            cli.main(shlex.split(line)[1:])
        assert stopped.value.code == 0, line
    else:
        done = subprocess.run(
            line, shell=True, env=environment, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"


@pytest.mark.slow
def test_every_line_runs_as_printed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    # As in a terminal with the environment activated, here with the sources of this checkout.
    environment = os.environ | {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "PYTHONPATH": str(PROJECT / "src"),
        "OMP_NUM_THREADS": "1",
    }
    names = {}
    for language, block in BLOCKS:
        if language:
            run_python(block, names)
        else:
            for line in block.splitlines():
                run_line(line, environment)
    sys.modules.pop("network", None)
    made = {path.name for path in tmp_path.iterdir()}
    assert {"out", "out-ours", "report.html", "matcha-demo"} <= made


def test_the_readme_is_for_first_readers():
    assert "make demo" in README
    assert "make test" in README
    widest = max(line.count("|") - 1 for line in README.splitlines() if line.startswith("|"))
    assert widest <= 8
    for target in re.findall(r"\]\((docs/[^)#]+)", README):
        assert (PROJECT / target).is_file(), target
