"""The documents say what the code and the records say."""

import importlib.util
import re
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[1]


def load_refresh():
    spec = importlib.util.spec_from_file_location("refresh", PROJECT / "docs" / "refresh.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("document", ["README.md", "docs/results.md"])
def test_tables_are_those_of_the_records(document):
    text = (PROJECT / document).read_text()
    assert load_refresh().refreshed(text) == text, "run: python docs/refresh.py"
    assert text.count("paper |") >= 2


DOCUMENTS = [PROJECT / "README.md", *sorted((PROJECT / "docs").rglob("*.md"))]
BLOCKS = [
    pytest.param(block, id=f"{path.relative_to(PROJECT)}-{number}")
    for path in DOCUMENTS
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", path.read_text(), re.DOTALL))
]


@pytest.mark.parametrize("block", BLOCKS)
def test_code_blocks_run(block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "block", "exec"), {})


def test_the_cited_version_has_release_notes():
    cited = re.search(r"^version: (.+)$", (PROJECT / "CITATION.cff").read_text(), re.MULTILINE)
    assert f"## [{cited[1]}]" in (PROJECT / "CHANGELOG.md").read_text()
