"""The timeline in a real browser: drawn, hovered, zoomed, clicked, on a phone, offline."""

import pytest
from timelines import CHANCES, REFERENCE, made_steps

from matcha_gnn.report.timeline import write_timeline

PLOT = "[data-plot=accuracy]"


@pytest.fixture(scope="module")
def timeline(tmp_path_factory):
    folder = tmp_path_factory.mktemp("timeline")
    steps = made_steps()
    write_timeline(steps, REFERENCE, CHANCES, folder / "timeline.html")
    write_timeline(made_steps(1000), REFERENCE, CHANCES, folder / "long.html")
    write_timeline([], REFERENCE, CHANCES, folder / "empty.html")
    write_timeline(steps[:1], REFERENCE, CHANCES, folder / "one.html")
    for step in steps:
        if step.report:
            (folder / step.report).parent.mkdir(parents=True)
            (folder / step.report).write_text(f"<h1>Report {step.number}</h1>")
    return folder


@pytest.fixture
def opened(browser, timeline, visit):
    """Open a page; complaints and requests beside the page itself land in a list."""
    contexts = []

    def open_page(name="timeline", width=1280, scheme="light", **more):
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True, **more
        )
        contexts.append(context)
        return visit(context, timeline / f"{name}.html")

    yield open_page
    for context in contexts:
        context.close()


def at(page, share, plot=PLOT):
    """The point of a drawing at a share of its width."""
    page.locator(plot).scroll_into_view_if_needed()
    box = page.locator(plot).bounding_box()
    return box["x"] + 46 + share * (box["width"] - 54), box["y"] + box["height"] / 2


def visible_dots(page):
    """Dots of the drawing that are inside of it."""
    return page.evaluate(
        f"""() => {{
            const box = document.querySelector("{PLOT}").getBoundingClientRect();
            return [...document.querySelectorAll("{PLOT} circle")].filter((dot) => {{
                const x = dot.getBoundingClientRect().x;
                return x > box.left + 40 && x < box.right - 4;
            }}).length;
        }}"""
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 390, 1280])
@pytest.mark.parametrize("name", ["timeline", "long", "empty", "one"])
def test_nothing_overflows_fails_or_is_asked_for(opened, name, width, scheme):
    page, seen = opened(name, width, scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert seen == []


def test_everything_is_drawn(opened):
    page, _ = opened()
    steps = made_steps()
    told = [step for step in steps if step.accuracy == step.accuracy]
    assert page.locator(f"{PLOT} circle").count() == len(told)
    assert page.locator(f"{PLOT} .bell").count() == sum(bool(step.alarms) for step in steps) > 0
    assert page.locator(f"{PLOT} .gone").count() == 1
    assert page.locator(f"{PLOT} rect[stroke]").count() == sum(
        s.measured == s.measured for s in steps
    )
    assert page.locator(f"{PLOT} .band").count() == 2, "broken where accuracy cannot be told"
    assert page.locator(".plot svg").count() == 5


def test_hovering_tells_what_was_found(opened):
    page, _ = opened()
    page.mouse.move(*at(page, 0.5))
    tip = page.locator("#tip")
    assert tip.is_visible()
    text = tip.inner_text()
    assert "day-6.npz" in text or "day-7.npz" in text
    assert "Alarm: level" in text
    assert page.locator(".plot .rule").count() == 5
    page.mouse.move(5, 5)
    assert not tip.is_visible()


def test_a_click_shows_a_graph_and_leads_to_its_report(opened):
    page, _ = opened()
    page.mouse.click(*at(page, 0.99))
    card = page.locator("#card")
    assert "12. day-12.npz" in card.inner_text()
    assert "Reason 12." in card.inner_text()
    card.get_by_role("link").click()
    assert page.get_by_role("heading").inner_text() == "Report 12"


def test_a_broken_file_says_what_is_wrong(opened):
    page, _ = opened()
    page.mouse.click(*at(page, 0.03 + 0.94 * 2 / 11))
    card = page.locator("#card")
    assert "not a plain array file" in card.inner_text()
    assert card.get_by_role("link").count() == 0


def test_dragging_zooms_and_all_goes_back(opened):
    page, _ = opened()
    everything = visible_dots(page)
    page.mouse.move(*at(page, 0.55))
    page.mouse.down()
    page.mouse.move(*at(page, 0.8), steps=5)
    page.mouse.up()
    some = visible_dots(page)
    assert 0 < some < everything
    page.get_by_role("button", name="All").click()
    assert visible_dots(page) == everything
    page.get_by_role("button", name="Zoom in").click()
    assert visible_dots(page) < everything
    page.get_by_role("button", name="Zoom out").click()
    assert visible_dots(page) == everything
    page.get_by_role("button", name="Evenly spaced").click()
    assert visible_dots(page) == everything
    labels = page.locator(f"{PLOT} text").all_text_contents()
    assert "1" in labels
    assert not any("Jan" in label for label in labels)


def test_keys_choose_zoom_and_open(opened):
    page, _ = opened()
    page.locator(PLOT).focus()
    page.keyboard.press("ArrowLeft")
    assert "12. day-12.npz" in page.locator("#card").inner_text()
    page.keyboard.press("ArrowLeft")
    assert "11. day-11.npz" in page.locator("#card").inner_text()
    everything = visible_dots(page)
    page.keyboard.press("+")
    assert visible_dots(page) < everything
    page.keyboard.press("0")
    assert visible_dots(page) == everything
    page.keyboard.press("Enter")
    page.get_by_text("Report 11").wait_for()


def test_a_thumb_can_use_it(opened):
    page, _ = opened(width=390, has_touch=True, is_mobile=True)
    page.touchscreen.tap(*at(page, 0.99))
    assert "12. day-12.npz" in page.locator("#card").inner_text()
    sizes = page.evaluate(
        "[...document.querySelectorAll('.bar button')].map(b => [b.offsetWidth, b.offsetHeight])"
    )
    assert min(min(pair) for pair in sizes) >= 44


def test_without_scripts_the_table_has_the_figures(opened):
    page, _ = opened(java_script_enabled=False)
    assert page.locator("noscript p").is_visible()
    assert "70.0 %" in page.get_by_role("row", name="day-7.npz").inner_text()


def test_the_table_sorts(opened):
    page, _ = opened()
    table = page.get_by_role("table").last
    table.get_by_role("button", name="number").click()
    assert table.get_by_role("rowheader").first.inner_text() == "1"
