import math
import re
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import matcha_gnn as mg
from changed_results import with_probs
from html_page import Page
from matcha_gnn.errors import InvalidArgumentError
from matcha_gnn.gamma.status import Status
from matcha_gnn.gamma.testing import tiny_graph, trained_model
from matcha_gnn.metrics import evaluate
from matcha_gnn.report import write_page


def render_page(result, labels=None, mask=None):
    """The page of a result as text."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "page.html"
        result.report(path, labels, mask)
        return path.read_text(encoding="utf-8")


@pytest.mark.parametrize("num_classes", [2, 40])
@pytest.mark.parametrize("rounds", [0, 3])
@pytest.mark.parametrize("labelled", [True, False])
def test_page_is_whole_and_needs_nothing_else(make, tmp_path, num_classes, rounds, labelled):
    result, labels = make(num_classes, rounds)
    path = tmp_path / "out.html"
    result.report(path, labels=labels if labelled else None)
    text = path.read_text(encoding="utf-8")
    page = Page(text)
    assert text.startswith("<!doctype html>")
    assert len(text.encode()) < 300_000
    # Confidence, loss and shares; old against new labels where some differ; γ where it moved.
    drawn = 3 + bool(result.changed) + bool(rounds)
    assert page.tags.count("svg") == page.tags.count("figure") == drawn
    assert page.tags.count("caption") == page.tags.count("table")
    assert not {"link", "img", "iframe", "object"} & set(page.tags)
    references = [v for k, v in page.attributes if k in ("src", "href", "xlink:href")]
    assert all(v and v.startswith("#") for v in references)
    assert not re.search(r"https?://|@import|url\((?!#)", text)
    unknown = not labelled and result.changed > 0
    assert ("No labels were given" in page.words) == unknown
    ids = [v for k, v in page.attributes if k == "id"]
    assert len(ids) == len(set(ids))
    assert list(tmp_path.iterdir()) == [path]


def test_scores_are_those_of_metrics(make):
    result, labels = make()
    words = Page(render_page(result, labels)).words
    before, after = evaluate(result.labels_before, labels), evaluate(result.labels, labels)
    for one, other in zip(before.as_dict().values(), after.as_dict().values(), strict=True):
        assert re.search(rf"{100 * one:.2f} % +{100 * other:.2f} %", words)
    assert "Over all 400 nodes, against the labels" in words


def test_scores_count_the_nodes_of_the_mask(make):
    result, labels = make()
    mask = result.labels == labels
    words = Page(render_page(result, labels, mask)).words
    assert f"Over {int(mask.sum())} of 400 nodes, those with labels to score by" in words
    before = evaluate(result.labels_before, labels, mask).accuracy
    assert re.search(rf"accuracy +{100 * before:.2f} % +100.00 %", words)


def test_names_and_settings_are_escaped(make):
    result, _ = make()
    evil = "<script>alert('x')</script>"
    method, loss = mg.T3A(), mg.PIC()
    for given, names in ((method, ("name", "scale")), (loss, ("name", "min_share"))):
        for name in names:
            object.__setattr__(given, name, evil)
    text = render_page(replace(result, strategy=mg.Matcha(method, loss=loss)))
    assert text.count("<script") == 1  # ours, which sorts tables
    assert "<script>alert" not in text
    assert evil in Page(text).words


def test_a_run_that_was_not_finite_is_shown(make):
    result, labels = make()
    trace = replace(result.trace, loss=[*result.trace.loss[:-1], math.nan])
    gamma = torch.full_like(result.gamma, math.inf)
    broken = replace(result, trace=trace, gamma=gamma, ended=Status.NON_FINITE)
    broken = with_probs(broken, after=torch.full_like(result.probs, math.nan))
    words = Page(render_page(broken, labels)).words
    assert ": non-finite." in words
    assert "not finite" in words
    assert not re.search(r"\b(nan|inf)\b", words)


def test_labels_that_do_not_fit_leave_no_file(make, tmp_path):
    result, labels = make()
    with pytest.raises(InvalidArgumentError, match="labels"):
        write_page(result, tmp_path / "out.html", labels[:-1])
    assert not list(tmp_path.iterdir())


def test_a_comparison_lists_its_candidates_with_what_they_are(tmp_path):
    result = mg.adapt(trained_model(), tiny_graph())
    page = Page(render_page(result))
    assert "the network as it is" in page.words
    assert "features, edges and network together" in page.words
    assert "γ" not in page.words
    assert "PIC" not in page.words
    card = mg.diagnose(trained_model(), tiny_graph())
    for row in card.rows:
        assert row.target in page.words, row
