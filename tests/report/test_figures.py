import math
import re
from dataclasses import replace
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest
import torch

import matcha_gnn as mg
from changed_results import with_probs
from matcha_gnn.gamma.figures import gamma_bars, loss_curve, share_curves
from matcha_gnn.gamma.page import workings
from matcha_gnn.gamma.trace import Trace
from matcha_gnn.report import confidence_histograms, label_confusion

SVG_NAMES = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '


def parsed(svg: str) -> ElementTree.Element:
    """As XML; in a page the names are known without being declared."""
    return ElementTree.fromstring(svg.replace("<svg ", "<svg " + SVG_NAMES, 1))


def pictures(result):
    return [label_confusion(result), confidence_histograms(result), *workings(result)]


def texts(svg: str) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg)


@pytest.mark.parametrize("num_classes", [2, 40])
@pytest.mark.parametrize("rounds", [0, 3])
def test_every_figure_is_well_formed_and_named(make, num_classes, rounds):
    result, _ = make(num_classes, rounds)
    for picture in pictures(result):
        svg = parsed(picture.svg)
        assert svg.get("role") == "img"
        assert len(svg.get("aria-label", "")) > 20
        assert svg.get("viewBox")
        assert svg.get("width") is None
        assert picture.title
        assert picture.caption


def test_figures_take_the_colour_of_the_page(make):
    for picture in pictures(make(12)[0]):
        assert "currentColor" in picture.svg
        assert "#010203" not in picture.svg
        assert "fill: #ffffff" not in picture.svg
        assert "<style" not in picture.svg


def test_ids_are_unique_over_all_figures_and_resolve(make):
    together = "".join(picture.svg for picture in pictures(make(12)[0]))
    ids = re.findall(r' id="([^"]*)"', together)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'(?:url\(|href=")#([^")]+)', together)) == set(ids)


def test_the_callers_matplotlib_settings_neither_change_nor_matter(make):
    result, _ = make()
    plain = gamma_bars(result)
    with matplotlib.rc_context({"text.color": "red", "font.size": 30, "svg.fonttype": "path"}):
        before = dict(matplotlib.rcParams)
        assert gamma_bars(result) == plain
        assert dict(matplotlib.rcParams) == before


def test_gamma_names_the_largest_change(make):
    result, _ = make()
    moved = replace(result, gamma_before=torch.zeros(4), gamma=torch.tensor([0.1, 0, -2, 0]))
    assert gamma_bars(moved).caption == "Largest change at hop 2: 0 to −2."
    same = replace(result, gamma_before=result.gamma)
    assert gamma_bars(same).caption == "γ did not change."


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_numbers_that_are_not_finite_are_left_out(make, bad):
    result, _ = make()
    trace = replace(result.trace, loss=[0.5, 0.4, bad])
    trace.class_shares = [np.full(2, np.nan)] * 3
    gamma, probs = result.gamma.clone(), result.probs.clone()
    gamma[1], probs[:] = bad, math.nan
    for picture in pictures(with_probs(replace(result, trace=trace, gamma=gamma), after=probs)):
        assert not re.search(r"\b(nan|inf)\b", picture.svg + picture.caption)
    caption = loss_curve(replace(result, trace=trace)).caption
    assert "to not finite after the last. Not finite, and left out, in 1 of 3 rounds." in caption


def test_a_long_run_is_thinned_and_says_so(make):
    result, _ = make()
    noise = np.random.default_rng(0).random(20_000)
    shares = [np.array([share, 1 - share]) for share in noise]
    long = replace(result, trace=Trace(noise.tolist(), [result.gamma] * 20_000, shares))
    for picture in (loss_curve(long), share_curves(long)):
        assert "1,000 of 20,000 rounds are drawn." in picture.caption
        assert len(picture.svg) < 150_000


def test_only_the_ten_largest_classes_get_a_line(make):
    result, _ = make(40)
    picture = share_curves(result)
    largest = sorted(np.argsort(-result.trace.class_shares[-1])[:10].tolist())
    drawn = re.findall(r"class (\d+):", picture.svg)
    assert [int(c) for c in drawn] == largest
    assert "Only the 10 largest of 40 classes at the end are drawn." in picture.caption
    assert "Only" not in share_curves(make(10)[0]).caption


def test_confusion_counts_nodes(make):
    result, _ = make()
    one_hot = torch.eye(2)
    before, after = one_hot[[0] * 7 + [1] * 5], one_hot[[0] * 7 + [1, 1, 0, 0, 0]]
    picture = label_confusion(with_probs(result, before, after))
    assert sorted(texts(picture.svg)) == sorted(
        ["7", "3", "2", "0", "1", "0", "1", "class before", "class after"]
    )
    assert picture.caption.startswith("Most frequent change: class 1 to class 0, 3 nodes.")


def test_confusion_shows_the_classes_that_changed_most(make):
    result, _ = make()
    old = torch.arange(40).repeat(3)
    new = torch.where(old >= 30, 39, old)
    chosen = with_probs(result, torch.eye(40)[old], torch.eye(40)[new])
    picture = label_confusion(chosen)
    assert "Only the 20 classes with the most changes, of 40, are shown." in picture.caption
    assert {str(c) for c in range(30, 40)} <= set(texts(picture.svg))


def test_confusion_without_a_change_shows_classes_that_occur(make):
    result, _ = make()
    probs = torch.eye(40)[torch.full((5,), 33)]
    picture = label_confusion(with_probs(result, probs, probs))
    assert picture.caption.startswith("No label changed.")
    assert "33" in texts(picture.svg)


def test_confidence_reads_the_largest_probability(make):
    result, _ = make()
    before, after = torch.tensor([[0.5, 0.5]] * 4), torch.tensor([[0.1, 0.9]] * 4)
    picture = confidence_histograms(with_probs(result, before, after))
    assert picture.caption == "Mean 0.5 before, 0.9 after."


def test_text_is_escaped_and_not_read_as_mathematics(make):
    result, _ = make()
    loss = mg.PIC()
    loss.name = "$\\bad{ <b>"
    picture = loss_curve(replace(result, strategy=mg.Matcha(loss=loss)))
    assert "loss ($\\bad{ &lt;b&gt;)" in picture.svg


def test_gamma_that_is_no_hop_weight_is_not_called_one(make):
    result, _ = make()
    wrapped = mg.adapt(mg.APPNP(64, 2), result.graph, strategy=mg.Matcha(rounds=1))
    assert gamma_bars(wrapped).title == "Parameters γ"
    assert "hop" not in texts(gamma_bars(wrapped).svg)
    assert gamma_bars(result).title == "Weight of each hop"
