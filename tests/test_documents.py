"""The documents say what the code and the records say."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import matcha_gnn as mg
from matcha_paper.conclusions import published_tables
from matcha_paper.documents import DOCUMENTS, PICTURE, picture_of_all, refreshed
from matcha_paper.figures.theory import PICTURES

PROJECT = Path(__file__).parents[1]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_tables_are_those_of_the_records(document):
    text = (PROJECT / document).read_text()
    current = refreshed(text, PROJECT / "results")
    assert current == text, "run: python -m matcha_paper.documents"
    assert re.search(r"<!-- ([\w-]+)[^>]* -->\n[^<]+<!-- /\1 -->", text), "no table is filled"


def test_all_tables_together_are_the_sum_of_the_tables():
    text = (PROJECT / "docs" / "results.md").read_text()
    pages = [path.read_text() for path in (PROJECT / "docs" / "results").glob("*.md")]
    summaries = re.findall(
        r"summary -->\n(\d+) cells with a published number: .*; (\d+) at or above it minus",
        "".join(pages),
    )
    together = re.search(r"Of (\d+) cells with a published number (\d+) ", text)
    assert len(summaries) >= 9
    assert [sum(map(int, column)) for column in zip(*summaries, strict=True)] == [
        int(number) for number in together.groups()
    ]


def test_the_picture_of_all_cells_is_that_of_the_records():
    drawn = re.search(r'aria-label="[^"]*"', picture_of_all(PROJECT / "results"))[0]
    assert drawn in (PROJECT / PICTURE).read_text(), "run: python -m matcha_paper.documents"


def test_every_table_of_the_paper_has_a_page_that_is_linked():
    text = (PROJECT / "docs" / "results.md").read_text()
    for name in published_tables():
        assert f"(results/{name}.md)" in text
        page = (PROJECT / "docs" / "results" / f"{name}.md").read_text()
        assert all(f"<!-- {name}{kind} -->" in page for kind in ("", " summary", " gains"))


def test_the_pictures_of_the_theory_are_drawn():
    text = (PROJECT / "docs" / "theory.md").read_text()
    for name, draw in PICTURES.items():
        assert f"docs/pictures/{name}.svg" in text
        committed = (PROJECT / "docs" / "pictures" / f"{name}.svg").read_text()
        description = re.search(r'aria-label="[^"]*"', draw())[0]
        assert description in committed, "run: python -m matcha_paper.figures.theory"


def test_the_site_builds_and_every_link_resolves(tmp_path):
    pytest.importorskip("mkdocs", reason="mkdocs is not installed")
    build = ["-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", tmp_path / "site"]
    done = subprocess.run([sys.executable, *build], cwd=PROJECT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    pages = {path.parent.name: path for path in (tmp_path / "site" / "api").glob("*/index.html")}
    public = set(mg.__all__) - set(mg._MODULES)
    assert not public - set(pages), "add them to docs/api.md"
    for name, path in pages.items():
        text = path.read_text()
        assert f"mg.{name}" in text
        assert "doc-contents" in text, f"{name} has no documentation"
    assert "<math" in (tmp_path / "site" / "theory" / "index.html").read_text()
    sources = (tmp_path / "site").rglob("*.html")
    assert not [path for path in sources if 'class="arithmatex"' in path.read_text()]


PAGES = sorted((PROJECT / "docs").rglob("*.md"))
"""The README is run from top to bottom in test_readme.py."""
BLOCKS = [
    pytest.param(block, id=f"{path.relative_to(PROJECT)}-{number}")
    for path in PAGES
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", path.read_text(), re.DOTALL))
]


@pytest.mark.parametrize("block", BLOCKS)
def test_code_blocks_run(block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "block", "exec"), {})


def test_the_cited_version_has_release_notes():
    cited = re.search(r"^version: (.+)$", (PROJECT / "CITATION.cff").read_text(), re.MULTILINE)
    assert f"## [{cited[1]}]" in (PROJECT / "CHANGELOG.md").read_text()
