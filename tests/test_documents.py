"""The documents say what the code says: their Python runs, their links resolve, they stay short."""

import inspect
import re
import shutil

import pytest
import yaml

import matcha_gnn as mg
from documents import PROJECT, build_site, code_blocks, commands, run_block, run_line

DOCS = PROJECT / "docs"


@pytest.mark.parametrize("block", code_blocks(DOCS))
def test_code_blocks_run(block, tmp_path, monkeypatch):
    run_block(block, tmp_path, monkeypatch)


def test_commands_run_one_after_the_other(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for line in commands(DOCS / "ask.md"):
        run_line(line, monkeypatch)
    shutil.copy("target.npz", "next.npz")
    for line in commands(DOCS / "production.md") + commands(DOCS / "your-model.md"):
        run_line(line, monkeypatch)
    written = {path.name for path in (tmp_path / "files").iterdir()}
    assert {"out", "out-next", "tonight", "adapted", "by-probs"} <= written


def test_the_site_builds_and_every_link_resolves(tmp_path):
    site = build_site(PROJECT / "mkdocs.yml", tmp_path / "site")
    pages = {path.parent.name: path for path in (site / "api").glob("*/index.html")}
    public = {name for name in mg.__all__ if not inspect.ismodule(getattr(mg, name))}
    assert not public - set(pages), "add them to docs/api.md"
    for name, path in pages.items():
        text = path.read_text()
        assert f"mg.{name}" in text
        assert "doc-contents" in text, f"{name} has no documentation"
    assert "<math" in (site / "method" / "index.html").read_text()
    assert not [page for page in site.rglob("*.html") if 'class="arithmatex"' in page.read_text()]


def pages_of_the_site():
    """Markdown files in the navigation; index.md is the README."""
    text = (PROJECT / "mkdocs.yml").read_text()
    navigation = yaml.safe_load(text[text.index("\nnav:") :])["nav"]
    flat = re.findall(r"[\w-]+\.md", str(navigation))
    return [DOCS / name if name != "index.md" else PROJECT / "README.md" for name in flat]


def test_the_documents_stay_short():
    words = {path.name: len(path.read_text().split()) for path in pages_of_the_site()}
    assert words["README.md"] < 900
    assert words["method.md"] < 1500
    assert words["matcha.md"] < 2500
    assert sum(words.values()) < 16_000


def test_a_decision_is_one_line_of_at_most_sixty_words():
    lines = (DOCS / "decisions.md").read_text().splitlines()
    decisions = [line for line in lines if line.startswith("- ")]
    assert len(decisions) > 20
    assert not [line for line in decisions if len(line.split()) > 61]
    assert {line for line in lines if not line.startswith(("- ", "# "))} == {"", lines[2]}


def test_the_cited_version_has_release_notes():
    cited = re.search(r"^version: (.+)$", (PROJECT / "CITATION.cff").read_text(), re.MULTILINE)
    assert f"## [{cited[1]}]" in (PROJECT / "CHANGELOG.md").read_text()
