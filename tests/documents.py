"""Pages of documentation: the code and commands that they show, and the site that they make."""

import csv
import os
import re
import shlex
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from matcha_gnn import cli

PROJECT = Path(__file__).parents[1]


def code_blocks(folder):
    """Every piece of Python in the pages of a folder, as parameters of a test."""
    return [
        pytest.param(block, id=f"{path.relative_to(PROJECT)}-{number}")
        for path in sorted(folder.rglob("*.md"))
        for number, block in enumerate(
            re.findall(r"^```python\n(.*?)^```$", path.read_text(), re.DOTALL | re.MULTILINE)
        )
    ]


def run_block(block, folder, monkeypatch):
    """Run one in a folder of its own, as a reader does who copies it."""
    monkeypatch.chdir(folder)
    with warnings.catch_warnings():
        # What docs/your-model.md says of probabilities and functions.
        warnings.filterwarnings("ignore", "source: taken as it is")
        exec(compile(block, "block", "exec"), {})


def commands(path):
    """The lines of the blocks without a language, which are for a shell."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", path.read_text(), re.DOTALL | re.MULTILINE)
    return [line for language, block in blocks if not language for line in block.splitlines()]


def run_line(line, monkeypatch):
    """Run one in the current folder; `cd` holds for the lines after it."""
    command, *folders = line.split(" && cd ")
    if "answers.csv" in command:
        answer_questions()
    if command.startswith("matcha ") and not set(command) & set("&|<>;"):
        # In this process, which has paid for the imports.
        with pytest.raises(SystemExit) as stopped:
            cli.main(shlex.split(command)[1:])
        assert stopped.value.code == 0, command
    else:
        run_in_shell(command)
    for folder in folders:
        monkeypatch.chdir(folder)


def run_in_shell(command):
    """Run a command by bash, where `matcha` and `python` are those of this process."""
    tools = f'python() {{ "{sys.executable}" "$@"; }}; matcha() {{ python -m matcha_gnn "$@"; }}'
    done = subprocess.run(
        ["bash", "-c", f"{tools}\n{command}"],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"


def answer_questions():
    """Answer out/questions.csv as somebody does who knows the classes of target.npz."""
    labels = np.load("target.npz")["y"]
    with open("out/questions.csv", newline="") as questions, open("answers.csv", "w") as answers:
        answers.write("node,label\n")
        for row in csv.DictReader(questions):
            answers.write(f"{row['node']},{labels[int(row['node'])]}\n")


def build_site(configuration, folder):
    """The site of an mkdocs.yml; a link or an anchor that leads nowhere is an error."""
    pytest.importorskip("mkdocs", reason="mkdocs is not installed")
    build = ["-m", "mkdocs", "build", "--strict", "--quiet"]
    build += ["--config-file", configuration, "--site-dir", folder]
    done = subprocess.run([sys.executable, *build], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder
