"""Pages of guarded runs: what was tried, judged and taken."""

import math
import re

import pytest
from html_page import Page

import matcha_gnn as mg
from matcha_gnn.report import render_page
from matcha_gnn.report.figures import candidate_bars
from matcha_gnn.testing import tiny_graph, trained_model


@pytest.fixture(scope="module")
def judged():
    return mg.adapt(trained_model(), tiny_graph())


def test_the_page_opens_with_the_decision(judged):
    words = Page(render_page(judged)).words
    assert f"Status: {judged.status.value}. {judged.decision.sentence}" in words
    assert f"{judged.decision.chosen} taken:" in words
    for one in judged.decision.candidates:
        assert re.search(rf"{one.name}( \(taken\))? +{100 * one.expected_accuracy:.1f} %", words)
    assert words.count("(taken)") == 1


def test_rounds_that_were_not_run_are_not_drawn(judged):
    words = Page(render_page(judged)).words
    assert "Loss over the rounds" not in words
    assert "Models that were tried" in words


def test_the_picture_names_every_model(judged):
    picture = candidate_bars(judged)
    for one in judged.decision.candidates:
        assert f"{one.name}: {one.expected_accuracy:.1%}" in picture.svg
    assert f"({judged.decision.chosen})" in picture.caption


def test_a_model_that_cannot_be_judged_gets_a_page_that_says_so(tmp_path):
    result = mg.adapt(mg.GPRGNN(6, 3), tiny_graph())
    page = Page(render_page(result, tiny_graph().y))
    assert "Kept the source model" in page.words
    assert "Models that were tried" not in page.words
    assert ("class", "status") in page.attributes
    assert result.history.frame().empty
    assert "<svg" in result._repr_html_()
    assert len(result.plot().axes) == 2


def test_the_call_and_the_title_leave_out_a_loss_that_was_not_given(judged):
    text = render_page(judged)
    assert "mg.adapt(model, graph, mg.ERM(), protect=True" in text
    assert "<title>Adaptation: erm</title>" in text


def test_figures_in_a_notebook_show_what_was_tried(judged):
    titles = [axes.get_title() for axes in judged.plot().axes]
    assert titles == ["hop weights", "models that were tried", "confidence"]
    assert not math.isnan(judged.decision.candidates[0].expected_accuracy)
