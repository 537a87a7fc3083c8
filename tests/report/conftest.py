import os
import shutil
from collections.abc import Callable
from functools import cache

import pytest
import torch

import matcha_gnn as mg
from matcha_gnn.result import Result

CHROMIUM = os.environ.get("CHROMIUM") or next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
Make = Callable[..., tuple[Result, torch.Tensor]]


@cache
def _adapted(num_classes: int, rounds: int) -> tuple[Result, torch.Tensor]:
    shares = [1 / num_classes] * num_classes
    graph = mg.datasets.csbm(400, 64, degree=4, signal=4, shares=shares, seed=0)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = mg.GPRGNN(64, num_classes, K=3)
    if not rounds:
        return mg.predict(model, graph), graph.y
    return mg.adapt(model, graph, strategy=mg.Matcha(rounds=rounds)), graph.y


@pytest.fixture
def make() -> Make:
    """A result and the labels of its graph, by number of classes and rounds."""

    def adapted(num_classes: int = 2, rounds: int = 3) -> tuple[Result, torch.Tensor]:
        return _adapted(num_classes, rounds)

    return adapted


@pytest.fixture(scope="module")
def browser():
    """A Chromium to open pages with."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("no Chromium: install it, or set CHROMIUM to its path")
    with playwright.sync_playwright() as driver:
        # A container's root has no sandbox to give; the pages are our own.
        started = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def opened(browser):
    """Open a file; complaints, and requests beside the file itself, land in a list."""
    contexts = []

    def open_page(path, width=1280, scheme="light"):
        size = {"width": width, "height": 900}
        contexts.append(browser.new_context(viewport=size, color_scheme=scheme, offline=True))
        page, seen = contexts[-1].new_page(), []
        page.on("console", lambda message: seen.append(message.text))
        page.on("pageerror", lambda error: seen.append(str(error)))
        page.on("request", lambda request: seen.append(request.url))
        page.goto(path.as_uri())
        assert seen.pop(0) == path.as_uri()
        return page, seen

    yield open_page
    for context in contexts:
        context.close()
