"""Every line of the README runs as printed, from top to bottom, in one empty folder."""

import contextlib
import io
import re
import tomllib

from documents import PROJECT, run_line

README = (PROJECT / "README.md").read_text()
BLOCKS = re.findall(r"^```(python)?\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
POINTS = 2.0
"""Last digits depend on the machine: shares and percentages may differ by so many points."""


def shown(block):
    """What comments say is printed: those right after a line that prints, each wrapped as it is."""
    comments = re.findall(r"^print\(.*\n((?:# .*\n)+)", block, re.MULTILINE)
    return [" ".join(line[2:] for line in comment.splitlines()) for comment in comments]


def numbers(text):
    """Every number of a line, in points where it is a share."""
    found = [float(number) for number in re.findall(r"\d+(?:\.\d+)?", text)]
    return [100 * number if "%" not in text and number < 1 else number for number in found]


def words(text):
    return re.sub(r"\d+(\.\d+)?", "0", text)


def run_python(block, names):
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(block, "README.md", "exec"), names)
    printed = said.getvalue().splitlines()
    assert [words(line) for line in printed] == [words(line) for line in shown(block)]
    for line, comment in zip(printed, shown(block), strict=True):
        pairs = zip(numbers(line), numbers(comment), strict=True)
        assert all(abs(is_ - said) <= POINTS for is_, said in pairs), line


def check_pip(line):
    """A line of pip, whose extra must exist."""
    (extra,) = re.findall(r"'\.\[(\w+)\]'", line)
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    assert extra in project["optional-dependencies"]


def test_every_line_runs_as_printed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    for language, block in BLOCKS:
        if language:
            run_python(block, names)
        else:
            for line in block.splitlines():
                check_pip(line) if line.startswith("pip install") else run_line(line, monkeypatch)
    assert sum(bool(language) for language, _ in BLOCKS) == 3
    written = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")}
    assert {"source.safetensors", "report.html", "questions.html"} <= written
    assert {"files/out/answer.safetensors", "files/watch/watch.csv"} <= written


def test_the_readme_is_for_first_readers():
    assert len(README.split()) < 900
    first_half = README[: README.index("## The paper")]
    assert not re.search(r"γ|PIC\b|hop weight", first_half)
    widest = max(line.count("|") - 1 for line in README.splitlines() if line.startswith("|"))
    assert widest <= 8
    for target in re.findall(r"\]\((docs/[^)#]+)", README):
        assert (PROJECT / target).is_file(), target
