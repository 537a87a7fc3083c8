"""Pages of guarded runs: what was tried, judged and taken."""

import dataclasses
import math
import re

import pytest
import torch

import matcha_gnn as mg
from html_page import Page
from matcha_gnn.report import render_page
from matcha_gnn.report.figures import candidate_bars
from matcha_gnn.report.notebook import TONES
from matcha_gnn.result import Trace
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
    assert "ms per round" not in words


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
    assert ("class", "status neutral") in page.attributes
    assert "no other could be compared" in page.words
    assert result.trace.frame().empty
    assert "<svg" in result._repr_html_()
    assert len(result.plot().axes) == 2


OUTCOMES = {
    "good": {"status": mg.Status.ADAPTED},
    "neutral": {"status": mg.Status.KEPT_SOURCE},
    "warning": {"status": mg.Status.LOSS_ROSE},
    "alarm": {"status": mg.Status.STOPPED, "decision": None},
}


def outcome_of(result, severity):
    """The same result, if it had ended otherwise; an alarm by labels that are all of one class."""
    first = torch.eye(result.probs.shape[1])[:1].expand_as(result.probs)
    probs = first if severity == "alarm" else result.probs_before
    return dataclasses.replace(result, probs=probs, **OUTCOMES[severity])


@pytest.mark.parametrize("severity", OUTCOMES)
def test_box_and_cell_are_coloured_by_severity(judged, severity):
    result = outcome_of(judged, severity)
    page = Page(render_page(result))
    assert result.severity == severity
    assert ("class", f"status {severity}") in page.attributes
    assert ("Alarm: " in page.words) is (severity == "alarm")
    cell = result._repr_html_()
    assert f"solid {TONES[result.severity]}" in cell
    assert len(set(TONES.values())) == 4
    for alarm in result.alarms:
        assert alarm in page.words
        assert alarm in Page(cell).words


def test_estimates_that_are_not_numbers_are_not_shown_as_numbers(judged):
    nothing = dict.fromkeys(("expected_accuracy", "expected_gain", "least_gain"), math.nan)
    source, *others = judged.decision.candidates
    some = dataclasses.replace(others[0], name="broken", **nothing)
    mixed = with_candidates(judged, (source, *others, some))
    words = Page(render_page(mixed)).words
    assert re.search(rf"{some.name} +(cannot be estimated +){{3}}", words)
    assert f"{some.name}: cannot be estimated" in candidate_bars(mixed).svg
    assert not re.search(r"\b(nan|inf)\b|not finite", words)
    none = with_candidates(
        judged, tuple(dataclasses.replace(c, **nothing) for c in (source, *others))
    )
    assert candidate_bars(none) is None
    assert "models that were tried" not in [axes.get_title() for axes in none.plot().axes]
    assert not re.search(r"\b(nan|inf)\b|not finite", Page(render_page(none)).words)


def with_candidates(result, candidates):
    decision = dataclasses.replace(result.decision, candidates=candidates)
    return dataclasses.replace(result, decision=decision, trace=Trace())


def test_the_page_names_the_threshold_that_applied(judged):
    for threshold, said in ((0.02, "reaches 2 points"), (0.0075, "reaches 0.75 points")):
        decision = dataclasses.replace(judged.decision, threshold=threshold)
        assert said in candidate_bars(dataclasses.replace(judged, decision=decision)).caption


@pytest.mark.parametrize("labelled", [True, False])
def test_a_target_with_an_accuracy_table_is_not_said_to_have_no_labels(judged, labelled):
    words = Page(render_page(judged, tiny_graph().y if labelled else None)).words
    assert ("The target has no labels" in words) is not labelled
    assert ("Labels of the target are not used here" in words) is labelled


def test_the_call_on_the_page_gives_the_same_result(judged):
    page = Page(render_page(judged))
    call = re.search(r"mg\.adapt\(model, graph, mg\.ERM\(\), mg\.Guarded\(.*seed=0\)", page.words)
    again = eval(call[0], {"mg": mg, "model": trained_model(), "graph": tiny_graph()})
    assert torch.equal(again.probs, judged.probs)
    assert again.strategy == judged.strategy
    assert "<title>Adaptation: erm, guarded</title>" in render_page(judged)


def test_a_run_without_a_loss_or_a_choice_is_shown(judged):
    result = mg.adapt(trained_model(), tiny_graph(), strategy=mg.Fitted())
    page = Page(render_page(result))
    assert f"Status: fitted. {result.sentence}" in page.words
    assert "γ (the weights of the hops) set by fitted:" in page.words
    assert "Loss over the rounds" not in page.words
    assert "<svg" in result._repr_html_()
    assert [axes.get_title() for axes in result.plot().axes] == ["hop weights", "confidence"]


def test_figures_in_a_notebook_show_what_was_tried(judged):
    titles = [axes.get_title() for axes in judged.plot().axes]
    assert titles == ["hop weights", "models that were tried", "confidence"]
    assert not math.isnan(judged.decision.candidates[0].expected_accuracy)
