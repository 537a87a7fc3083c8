"""Draws the picture of watch.md: a real run on Syn-Cora, with the labels shown beside the estimate.

Run: python docs/watch_pictures.py FOLDER, where FOLDER is kept: it has all files of the run.
It needs the data sets (MATCHA_DATA), playwright and Chromium.
"""

import shutil
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

import matcha_gnn as mg

HERE = Path(__file__).parent
DOWN = (0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1)


def command(*arguments: object) -> None:
    """Run `matcha`."""
    subprocess.run([sys.executable, "-m", "matcha_gnn", *map(str, arguments)], check=True)


def prepare(folder: Path) -> Path:
    """Train on one draw of Syn-Cora and watch another; returns the page."""
    graphs = folder / "graphs"
    graphs.mkdir(parents=True)
    source = mg.datasets.make_graph("syn-cora", homophily=0.8, run=1)
    mg.write_graph(source, folder / "source.npz")
    for day, homophily in enumerate((*DOWN, *DOWN[-2::-1]), 1):
        graph = mg.datasets.make_graph("syn-cora", homophily=homophily, run=2)
        mg.write_graph(graph, graphs / f"2026-05-{day:02d}.npz")
    command("train", folder / "source.npz", "-o", folder / "model.safetensors")
    files = folder / "model.safetensors", graphs, "-o", folder / "watch"
    trained_on = "--source", folder / "source.npz"
    command("watch", *files, "--once", "--level", 0.8, *trained_on)
    return folder / "watch" / "timeline.html"


def main() -> None:
    """Make the run and its picture."""
    page_file = prepare(Path(sys.argv[1]))
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = browser.new_page(viewport={"width": 1000, "height": 1050})
        page.goto(page_file.absolute().as_uri())
        plot = page.locator("[data-plot=accuracy]")
        plot.focus()
        for _ in range(8):
            page.keyboard.press("ArrowRight")
        page.evaluate("window.scrollTo(0, 0)")
        page.screenshot(path=HERE / "watch-page.png")


if __name__ == "__main__":
    main()
