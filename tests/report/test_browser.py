"""The pages in a real browser: nothing overflows, nothing is asked for, tables sort."""

from pathlib import Path

import pytest
import torch

import matcha_gnn as mg
from matcha_gnn.gamma.testing import tiny_graph, trained_model
from matcha_paper.experiments import compare, load
from matcha_paper.pages import write_experiment_page
from running import succeeds

RECORDS = Path(__file__).parents[2] / "results"
PAGES = ("demo", "adapt-labels", "adapt-bare", "forty", "forty-bare", "kept", "reproduce")


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """One page of each kind, by name."""
    folder = tmp_path_factory.mktemp("pages")
    succeeds("demo", "-o", folder / "demo", "--json")
    model, graph = folder / "m.safetensors", tiny_graph()
    mg.save_model(trained_model(), model)
    mg.write_graph(graph, folder / "g.npz")
    succeeds("adapt", model, folder / "g.npz", "-o", folder / "adapt-labels", "--json")
    del graph.y
    mg.write_graph(graph, folder / "bare.npz")
    succeeds("adapt", model, folder / "bare.npz", "-o", folder / "adapt-bare", "--json")
    made = {name: folder / name / "report.html" for name in PAGES[:3]}
    made |= {name: folder / f"{name}.html" for name in PAGES[3:]}
    write_forty(made["forty"], made["forty-bare"])
    write_kept(made["kept"])
    experiment = load("table1")
    write_experiment_page(experiment, compare(experiment, RECORDS), RECORDS, made["reproduce"])
    return made


def write_forty(labelled, bare):
    graph = mg.datasets.csbm(800, 64, degree=4, signal=4, shares=[1 / 40] * 40, seed=0)
    torch.manual_seed(0)
    result = mg.adapt(mg.GPRGNN(64, 40, K=3), graph, strategy=mg.Matcha(rounds=3))
    result.report(labelled, labels=graph.y)
    result.report(bare)


def write_kept(path):
    """The source model is kept, as the target does not differ from the source."""
    source = mg.datasets.csbm(500, 20, homophily=0.8, signal=3, seed=0)
    target = mg.datasets.csbm(500, 20, homophily=0.8, signal=3, seed=1)
    model = mg.GPRGNN(20, 2)
    mg.fit(model, source, epochs=60)
    result = mg.adapt(model, target)
    assert result.status == "kept source"
    result.report(path)


OVERFLOWING = """() => [...document.querySelectorAll("main *")]
    .filter(e => !e.closest(".scroll") && !e.closest("svg"))
    .filter(e => e.getBoundingClientRect().right > innerWidth + 0.5)
    .map(e => e.outerHTML.slice(0, 80))"""
CROPPED = """() => [...document.querySelectorAll("svg")].flatMap(svg => {
    const box = svg.getBoundingClientRect();
    return [...svg.querySelectorAll("text")].filter(text => {
        const own = text.getBoundingClientRect();
        return own.left < box.left - 1 || own.right > box.right + 1 ||
               own.top < box.top - 1 || own.bottom > box.bottom + 1;
    }).map(text => text.textContent);
})"""


@pytest.mark.parametrize("width", [360, 1440])
@pytest.mark.parametrize("name", PAGES)
def test_nothing_overflows_is_asked_for_or_complained_about(opened, pages, name, width):
    page, seen = opened(pages[name], width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(OVERFLOWING) == []
    assert page.evaluate(CROPPED) == []
    assert seen == []


@pytest.mark.parametrize("name", ["forty", "reproduce"])
def test_tables_sort_by_click_and_by_keyboard(opened, pages, name):
    page, _ = opened(pages[name], 1440)
    table = page.locator("table.sortable").first
    second = f"[...document.querySelector('table.sortable').tBodies[0].rows].map({VALUE})"
    written = page.evaluate(second)
    head = table.locator("thead th").nth(1)
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    assert page.evaluate(second) == sorted(written)
    head.locator("button").focus()
    page.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "descending"
    assert page.evaluate(second) == sorted(written, reverse=True)
    assert sorted(written) != written
    first = table.locator("thead th").nth(0)
    first.locator("button").click()
    assert head.get_attribute("aria-sort") is None


VALUE = "row => Number(row.cells[1].dataset.value)"


def test_dark_and_light_differ_and_text_is_readable_in_both(opened, pages):
    for scheme in ("light", "dark"):
        page, _ = opened(pages["adapt-labels"], 1440, scheme)
        paper, ink = page.evaluate(COLOURS)
        assert contrast(paper, ink) > 7
        assert (luminance(paper) > 0.5) == (scheme == "light")
        page.emulate_media(media="print")
        assert luminance(page.evaluate(COLOURS)[0]) > 0.5


COLOURS = """() => ["backgroundColor", "color"].map(
    name => getComputedStyle(document.body)[name].match(/[0-9.]+/g).slice(0, 3).map(Number))"""


def luminance(rgb):
    linear = [c / 3294.6 if c <= 10 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in rgb]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    low, high = sorted([luminance(one), luminance(other)])
    return (high + 0.05) / (low + 0.05)


def test_a_screen_reader_finds_names_everywhere(opened, pages):
    page, _ = opened(pages["forty"], 1440)
    assert page.get_by_role("img").count() == page.locator("svg").count()
    assert page.locator("svg").count() == page.locator("figure").count() >= 4
    unnamed = "[...document.querySelectorAll('svg, section, .scroll, table')].filter(e => !(%s))"
    named = "e.ariaLabel || e.getAttribute('aria-labelledby') || e.caption"
    assert page.evaluate((unnamed % named) + ".length") == 0
    assert page.get_by_role("heading", level=1).count() == 1
