"""Pages of guarded runs: candidates, estimates and the decision."""

import dataclasses
import math
import re

import pytest
import torch
from matcha_gnn.testing import tiny_graph, trained_model

import matcha_gnn as mg
from html_page import Page
from matcha_gnn.evidence import Interval
from matcha_gnn.report import render_page
from matcha_gnn.report.candidates import candidate_gains
from matcha_gnn.report.notebook import TONES
from matcha_gnn.result import Trace


@pytest.fixture(scope="module")
def guarded():
    return mg.adapt(trained_model(), tiny_graph())


def test_the_page_opens_with_the_decision(guarded):
    words = Page(render_page(guarded)).words
    assert f"Status: {guarded.status.value}. {guarded.decision.summary()}" in words
    assert f"{guarded.decision.chosen} chosen by estimated accuracy:" in words
    for one in guarded.decision.candidates:
        assert re.search(rf"{one.name}( \(chosen\))? +{100 * one.expected_accuracy:.1f} %", words)
    assert words.count("(chosen)") == 1


def test_rounds_that_were_not_run_are_not_drawn(guarded):
    words = Page(render_page(guarded)).words
    assert "Loss over the rounds" not in words
    assert "Candidates by accuracy" in words
    assert "ms per round" not in words


def test_the_picture_names_every_model(guarded):
    picture = candidate_gains(guarded)
    for one in guarded.decision.candidates:
        assert f"{one.name}: {one.expected_accuracy:.1%}" in picture.svg
    assert f"Dot: {guarded.decision.chosen}, which is taken" in picture.caption


def test_a_page_says_that_accuracy_cannot_be_estimated(tmp_path):
    result = mg.adapt(mg.GPRGNN(6, 3), tiny_graph())
    page = Page(render_page(result, tiny_graph().y))
    assert "Kept the source model" in page.words
    assert "Candidates by accuracy" not in page.words
    assert ("class", "status neutral") in page.attributes
    assert "no other could be compared" in page.words
    assert result.trace.frame().empty
    assert "<svg" in result._repr_html_()
    assert len(result.plot().axes) == 2


def test_candidates_without_an_estimate_have_a_page(guarded):
    decision = dataclasses.replace(guarded.decision, obstacle="cannot tell", threshold=None)
    words = Page(render_page(dataclasses.replace(guarded, decision=decision))).words
    assert "Nothing is estimated of them. The classes of a few nodes would decide" in words


def outcome_of(result, severity):
    """The same result, if it had ended otherwise; an alarm by labels that are all of one class."""
    first = torch.eye(result.probs.shape[1])[:1].expand_as(result.probs)
    probs = first if severity == "alarm" else result.probs_before
    outcomes = {
        "good": {"decision": decided(result, low=0.01)},
        "neutral": {"decision": decided(result, "source"), "status": mg.Status.KEPT_SOURCE},
        "warning": {"decision": decided(result, low=-0.01)},
        "alarm": {"status": mg.Status.STOPPED, "decision": None},
    }
    return dataclasses.replace(result, probs=probs, **outcomes[severity])


def decided(result, chosen="fitted", low=0.0):
    """A decision for a candidate whose gain is expected, and at least as much as the bound."""
    source, *_ = result.decision.candidates
    value = source.goal._replace(value=source.goal.value + 0.02)
    other = dataclasses.replace(
        source, name="fitted", accuracy=value, goal=value, gain=Interval(0.02, low, 0.03)
    )
    return dataclasses.replace(
        result.decision, chosen=chosen, candidates=(source, other), threshold=0.0
    )


OUTCOMES = ("good", "neutral", "warning", "alarm")


@pytest.mark.parametrize("severity", OUTCOMES)
def test_box_and_cell_are_coloured_by_severity(guarded, severity):
    result = outcome_of(guarded, severity)
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


def test_estimates_that_are_not_numbers_are_not_shown_as_numbers(guarded):
    nothing = dict.fromkeys(("accuracy", "goal", "gain"), Interval(math.nan, math.nan, math.nan))
    source, *others = guarded.decision.candidates
    some = dataclasses.replace(others[0], name="broken", **nothing)
    mixed = with_candidates(guarded, (source, *others, some))
    words = Page(render_page(mixed)).words
    assert re.search(rf"{some.name} +(cannot be estimated +){{4}}", words)
    assert f"{some.name}: cannot be estimated" in candidate_gains(mixed).svg
    assert not re.search(r"\b(nan|inf)\b|not finite", words)
    none = with_candidates(
        guarded, tuple(dataclasses.replace(c, **nothing) for c in (source, *others))
    )
    assert candidate_gains(none) is None
    assert "candidates" not in [axes.get_title() for axes in none.plot().axes]
    assert not re.search(r"\b(nan|inf)\b|not finite", Page(render_page(none)).words)


def with_candidates(result, candidates):
    decision = dataclasses.replace(result.decision, candidates=candidates)
    return dataclasses.replace(result, decision=decision, trace=Trace())


def test_the_page_names_the_threshold_that_applied(guarded):
    for threshold, said in ((0.02, "threshold of 2 points"), (0.0075, "threshold of 0.75 points")):
        decision = dataclasses.replace(guarded.decision, threshold=threshold)
        assert said in candidate_gains(dataclasses.replace(guarded, decision=decision)).caption


@pytest.mark.parametrize("labelled", [True, False])
def test_a_target_with_an_accuracy_table_is_not_said_to_have_no_labels(guarded, labelled):
    words = Page(render_page(guarded, tiny_graph().y if labelled else None)).words
    assert ("The target has no labels" in words) is not labelled
    assert ("Labels of the target are not used here" in words) is labelled


def test_the_call_on_the_page_gives_the_same_result(guarded):
    page = Page(render_page(guarded))
    call = re.search(r"mg\.adapt\(model, graph, mg\.ERM\(\), mg\.Guarded\(.*seed=0\)", page.words)
    again = eval(call[0], {"mg": mg, "model": trained_model(), "graph": tiny_graph()})
    assert torch.equal(again.probs, guarded.probs)
    assert again.strategy == guarded.strategy
    day = f"{guarded.date.day} {guarded.date:%B %Y}"
    title = f"GPRGNN on a graph of {len(guarded.labels)} nodes, {day}"
    assert f"<title>{title}</title>" in render_page(guarded)


def test_a_run_without_a_loss_or_a_choice_is_shown(guarded):
    result = mg.adapt(trained_model(), tiny_graph(), strategy=mg.Fitted())
    page = Page(render_page(result))
    assert f"Status: fitted. {result.summary()}" in page.words
    assert "γ (the weights of the hops) set by fitted:" in page.words
    assert "Loss over the rounds" not in page.words
    assert "<svg" in result._repr_html_()
    assert [axes.get_title() for axes in result.plot().axes] == ["confidence", "hop weights"]


def test_figures_in_a_notebook_show_the_candidates(guarded):
    titles = [axes.get_title() for axes in guarded.plot().axes]
    assert titles == ["candidates", "confidence", "hop weights"]
    assert not math.isnan(guarded.decision.candidates[0].expected_accuracy)


@pytest.fixture(scope="module")
def kept():
    """Nothing is taken, as no gain reaches the threshold."""
    strategy = mg.Guarded(min_gain=0.99)
    return mg.adapt(trained_model(), tiny_graph(), strategy=strategy, classes=("a", "b", "c"))


def test_a_page_shows_what_would_change_where_nothing_was_taken(kept):
    best = kept.decision.compared
    words = re.sub(" +", " ", Page(render_page(kept, graph="graph.npz")).words)
    assert f"What would change with {best.name} (not taken)" in words
    assert "GPRGNN on graph.npz, " in words
    assert f"gain of {best.name}, not taken" in words
    would = list(kept.changes(best.probs))
    assert len(would) == int((best.probs.argmax(1) != kept.labels_before).sum()) > 0
    for change in would[:50]:
        row = f"{change.node} {kept.classes[change.before]} {100 * change.prob_before:.1f} %"
        assert row in words
    assert "0 of 120 labels changed (0.00 %)" in words
    assert "changed.csv" not in words


def test_the_table_of_nodes_is_cut_and_says_so(kept):
    first, *_ = kept.decision.candidates
    other = torch.roll(first.probs, 1, 1)
    result = dataclasses.replace(kept, probs=other, decision=None)
    page = Page(render_page(result))
    words = re.sub(" +", " ", page.words)
    assert "The 50 of 120 nodes whose new label is most probable" in words
    surest = max(result.changes(), key=lambda change: change.prob_after)
    assert f"probability {surest.node} {kept.classes[surest.before]}" in words


def test_estimates_of_classes_are_those_of_the_candidates(guarded):
    words = re.sub(" +", " ", Page(render_page(guarded)).words)
    scores = [
        one.class_estimates() for one in (guarded.decision.candidates[0], guarded.decision.taken)
    ]
    shown = [f"{100 * float(each.precision[0]):.1f} %" for each in scores]
    counts = [int((labels == 0).sum()) for labels in (guarded.labels_before, guarded.labels)]
    assert f" 0 {counts[0]} {counts[1]} {' '.join(shown)} " in words


def test_pic_and_gamma_come_last(guarded):
    words = Page(render_page(guarded)).words
    order = ["What changed", "Candidates", "Classes", "Source and target", "γ and PIC", "PIC loss:"]
    places = [words.index(each) for each in order]
    assert places == sorted(places)


def test_the_axis_of_candidates_shows_small_differences(guarded):
    """Gains of a point fill the axis, and values stand beside it."""
    figure = guarded.plot()
    axes = next(each for each in figure.axes if each.get_title() == "candidates")
    left, right = axes.get_xlim()
    gains = [one.gain for one in guarded.decision.candidates]
    reach = max(gain.high for gain in gains) - min(0.0, *(gain.low for gain in gains))
    assert right - left < max(1.2 * reach, 0.011)
    assert all(text.get_position()[0] > 1 for text in axes.texts)
