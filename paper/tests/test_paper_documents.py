"""The pages of the paper's site say what the records say, and their code runs."""

import re

import pytest

from documents import PROJECT, build_site, code_blocks, run_block
from matcha_paper.documents import DOCUMENTS, PICTURE, picture_of_all, refreshed
from matcha_paper.figures.theory import PICTURES

PAGES = PROJECT / "paper" / "docs"


@pytest.mark.parametrize("document", DOCUMENTS)
def test_tables_are_those_of_the_records(document):
    text = (PROJECT / document).read_text()
    current = refreshed(text, PROJECT / "results")
    assert current == text, "run: python -m matcha_paper.documents"
    assert re.search(r"<!-- ([\w-]+)[^>]* -->\n[^<]+<!-- /\1 -->", text), "no table is filled"


def test_the_picture_of_all_cells_is_that_of_the_records():
    drawn = re.search(r'aria-label="[^"]*"', picture_of_all(PROJECT / "results"))[0]
    assert drawn in (PROJECT / PICTURE).read_text(), "run: python -m matcha_paper.documents"


def test_the_pictures_of_the_theory_are_drawn():
    text = (PAGES / "theory.md").read_text()
    for name, draw in PICTURES.items():
        assert f"docs/pictures/{name}.svg" in text
        committed = (PAGES / "pictures" / f"{name}.svg").read_text()
        description = re.search(r'aria-label="[^"]*"', draw())[0]
        assert description in committed, "run: python -m matcha_paper.figures.theory"


@pytest.mark.parametrize("block", code_blocks(PAGES))
def test_code_blocks_run(block, tmp_path, monkeypatch):
    run_block(block, tmp_path, monkeypatch)


def test_the_site_builds_and_every_link_resolves(tmp_path):
    site = build_site(PROJECT / "paper" / "mkdocs.yml", tmp_path / "site")
    assert "<math" in (site / "theory" / "index.html").read_text()
    assert not [page for page in site.rglob("*.html") if 'class="arithmatex"' in page.read_text()]
