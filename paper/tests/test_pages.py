from dataclasses import replace
from pathlib import Path

from html_page import Page
from matcha_paper.experiments import Comparison, load
from matcha_paper.experiments.pairs import Paired
from matcha_paper.pages import render_experiment_page

CELL = Comparison("table1", "ERM", "homo-hetero", (0, 1), 73.19, 0.5, 73.62, 0.44)


def test_ours_stand_beside_the_published_numbers():
    cells = [CELL, replace(CELL, row="ERM + SURE", ours_mean=91.0, paper_mean=None, paper_sd=None)]
    page = Page(render_experiment_page(load("table1"), cells, Path("nowhere")))
    assert "73.19 ± 0.50" in page.words
    assert "(73.62 ± 0.44)" in page.words
    assert "−0.43" in page.words
    assert "matcha reproduce table1" in page.words
    assert page.tags.count("svg") == 1


def test_gains_over_the_base_row_and_stale_cells_are_shown():
    gain = Paired("ERM", 16.4, 0.35, 5, 0, 0.0625)
    cells = [CELL, replace(CELL, row="ERM + Matcha", ours_mean=89.6, gain=gain, stale=True)]
    words = Page(render_experiment_page(load("table1"), cells, Path("nowhere"))).words
    assert "+16.40 ± 0.35" in words
    assert "0.062" in words
    assert "89.60 ± 0.50 †" in words
    assert "† stale" in words
    assert "†" not in Page(render_experiment_page(load("table1"), [CELL], Path("nowhere"))).words


def test_records_say_what_they_were_made_with():
    records = Path(__file__).parents[2] / "results"
    words = Page(render_experiment_page(load("architectures"), [CELL], records)).words
    assert "records)" in words
