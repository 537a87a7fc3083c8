"""Pages of documentation: the Python that they show, and the site that they make."""

import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

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


def build_site(configuration, folder):
    """The site of an mkdocs.yml; a link or an anchor that leads nowhere is an error."""
    pytest.importorskip("mkdocs", reason="mkdocs is not installed")
    build = ["-m", "mkdocs", "build", "--strict", "--quiet"]
    build += ["--config-file", configuration, "--site-dir", folder]
    done = subprocess.run([sys.executable, *build], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder
