"""The page of questions in a real browser: click, keys, reload, and a file that is accepted."""

import csv
import json

import pytest

import matcha_gnn as mg
from running import succeeds

SIZE = {"num_nodes": 600, "num_features": 32, "signal": 2}
CLASSES = ["bot", 'human, "verified"', "<none>"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """What `matcha adapt --ask 12` writes for three classes with awkward names."""
    made = tmp_path_factory.mktemp("questions")
    shares = [0.4, 0.3, 0.3]
    source = mg.datasets.csbm(**SIZE, shares=shares, homophily=0.9, seed=0)
    target = mg.datasets.csbm(**SIZE, shares=shares, homophily=0.1, seed=1)
    model = mg.GPRGNN(32, 3, hidden_channels=8, K=3)
    mg.fit(model, source, epochs=60)
    mg.save_model(model, made / "m.safetensors")
    mg.write_graph(target, made / "g.npz")
    lines = ["name,joined", *(f"user {n},20{n % 25:02}" for n in range(600))]
    (made / "nodes.csv").write_text("\n".join(lines))
    classes = ["bot", "human", "none"]
    start = ["adapt", made / "m.safetensors", made / "g.npz", "-o", made / "out", "--json"]
    options = ["--ask", "12", "--table", made / "nodes.csv", "--classes", ",".join(classes)]
    succeeds(*start, *options)
    return made


def page_of(folder):
    return folder / "out" / "questions.html"


def shown(page):
    """The question that is seen."""
    seen = page.locator(".question:visible")
    assert seen.count() == 1
    return seen


def saved(page, path):
    with page.expect_download() as started:
        page.get_by_role("button", name="Save answers.csv").click()
    assert started.value.suggested_filename == "answers.csv"
    started.value.save_as(path)
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def test_clicks_keys_and_a_reload_end_in_a_file_that_decides(folder, opened, tmp_path):
    page, seen = opened(page_of(folder))
    assert page.locator("#count").inner_text() == "0 of 12 answered"
    assert "1." in shown(page).get_by_role("heading", level=2).inner_text()
    shown(page).get_by_role("button", name="human").click()
    assert "2." in shown(page).get_by_role("heading", level=2).inner_text()
    page.keyboard.press("1")
    page.keyboard.press("3")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("2")
    assert page.locator("#count").inner_text() == "4 of 12 answered"
    page.reload()
    assert page.locator("#count").inner_text() == "4 of 12 answered"
    assert page.locator("#progress").get_attribute("max") == "12"
    assert "4." in shown(page).get_by_role("heading", level=2).inner_text()
    page.keyboard.press("ArrowLeft")
    assert shown(page).get_by_role("button", name="none").get_attribute("aria-pressed") == "true"
    rows = saved(page, tmp_path / "answers.csv")
    assert [row["number"] for row in rows] == ["1", "2", "3", "5"]
    assert [row["label"] for row in rows] == ["human", "bot", "none", "human"]
    assert [each for each in seen if not each.startswith(("file:", "blob:"))] == []
    succeeds("answer", folder / "out", tmp_path / "answers.csv", "--json")
    summary = json.loads((folder / "out" / "summary.json").read_text())
    assert (summary["answers"]["answered"], summary["answers"]["skipped"]) == (4, 1)


def test_a_browser_that_keeps_nothing_says_so_and_still_saves(folder, browser, tmp_path):
    context = browser.new_context()
    refuse = "Object.defineProperty(window, 'localStorage', {get() { throw new Error('no'); }})"
    context.add_init_script(refuse)
    page = context.new_page()
    page.goto(page_of(folder).as_uri())
    assert page.locator("#volatile").is_visible()
    page.keyboard.press("2")
    assert [row["label"] for row in saved(page, tmp_path / "a.csv")] == ["human"]
    context.close()


@pytest.mark.parametrize("width", [320, 360, 1440])
def test_nothing_overflows_and_buttons_are_large_enough_for_a_thumb(folder, opened, width):
    page, seen = opened(page_of(folder), width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    sizes = page.evaluate(
        "[...document.querySelectorAll('button')].filter(b => b.offsetParent)"
        ".map(b => [b.offsetWidth, b.offsetHeight])"
    )
    assert min(min(pair) for pair in sizes) >= 44
    assert seen == []


def test_awkward_class_names_survive_the_page_and_the_file(opened, tmp_path):
    graph = mg.datasets.csbm(**SIZE, shares=[0.4, 0.3, 0.3], homophily=0.1, seed=1)
    model = mg.GPRGNN(32, 3, hidden_channels=8, K=3)
    source = mg.datasets.csbm(**SIZE, shares=[0.4, 0.3, 0.3], homophily=0.9, seed=0)
    mg.fit(model, source, epochs=60)
    result = mg.adapt(model, graph)
    result.ask(3, classes=CLASSES, names=["</script><b>x</b>"] * 600).to_html(tmp_path / "q.html")
    page, seen = opened(tmp_path / "q.html")
    for key in "231":
        page.keyboard.press(key)
    assert seen == []
    rows = saved(page, tmp_path / "answers.csv")
    assert [row["label"] for row in rows] == [CLASSES[1], CLASSES[2], CLASSES[0]]
    answered = result.answer(tmp_path / "answers.csv")
    assert list(answered.questions.answers.values()) == [1, 2, 0]
