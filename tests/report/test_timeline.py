"""The page of a timeline as text: figures, links, and names that are no markup."""

import json
import re
from dataclasses import replace

import pytest
from timelines import AWKWARD, CHANCES, REFERENCE, made_steps

from html_page import Page
from matcha_gnn.report.timeline import MEASURES, render_timeline


@pytest.fixture(scope="module")
def html():
    return render_timeline(made_steps(), REFERENCE, CHANCES)


def test_the_figures_of_every_graph_are_on_the_page(html):
    found = json.loads(re.search(r"const STEPS = (.*);", html)[1])
    steps = made_steps()
    assert [each["number"] for each in found] == [step.number for step in steps]
    assert [each["accuracy"] is None for each in found] == [n in (2, 4) for n in range(12)]
    assert found[0]["low"] == steps[0].low
    assert json.loads(re.search(r"const LEVEL = (.*);", html)[1]) == 0.8
    assert set(MEASURES) <= set(found[0])


def test_graphs_are_in_the_order_of_time():
    steps = made_steps()
    late = replace(steps[0], number=13, name="late.npz", time="2025-12-31T23:00:00-05:00")
    html = render_timeline([*steps, late], REFERENCE, CHANCES)
    names = re.findall(r'"name": "([^"]*)"', re.search(r"const STEPS = (.*);", html)[1])
    assert names[1] == "late.npz"


def test_names_and_messages_are_no_markup(html):
    assert AWKWARD not in html
    assert html.count("</script>") == 1


def test_the_page_is_well_formed_and_asks_for_nothing(html):
    page = Page(html)
    assert not {value for name, value in page.attributes if name == "src"}
    links = {value for name, value in page.attributes if name == "href"}
    assert links <= {"", "#main", *(step.report for step in made_steps())}
    assert "Reason 12." in page.words


def test_alarms_are_told_with_their_chance(html):
    rang = sum(bool(step.alarms) for step in made_steps())
    level = re.search(r'<th scope="row">level</th>(.*?)</tr>', html)[1]
    assert f"<td>{rang}</td><td>0 of 20</td>" in level
    assert "below the level of 80.0%" in level
    quiet = render_timeline(made_steps(), REFERENCE._replace(level=None), CHANCES)
    assert "no level was given" in quiet


def test_a_page_without_graphs_and_one_with_a_broken_one_alone():
    assert "No graph has been observed yet." in render_timeline([], REFERENCE, CHANCES)
    assert "could not be used" in render_timeline([made_steps()[2]], REFERENCE, CHANCES)
