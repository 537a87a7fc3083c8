"""Draws the pictures of ask.md: a real run on Syn-Cora, answered by the labels of its target.

Run: python docs/ask_pictures.py FOLDER, where FOLDER is kept: it has all files of the run.
It needs the data sets (MATCHA_DATA), playwright and Chromium.
"""

import csv
import shutil
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

import matcha_gnn as mg

HERE = Path(__file__).parent


def command(*arguments: object) -> None:
    """Run `matcha`."""
    words = [sys.executable, "-m", "matcha_gnn", *map(str, arguments)]
    subprocess.run(words, check=True)


def prepare(folder: Path) -> list[int]:
    """Train, adapt and ask; returns the labels that a person would know."""
    for name, homophily in (("source", 0.8), ("labelled", 0.2)):
        command("make-graph", "syn-cora", "-o", folder / f"{name}.npz", "--homophily", homophily)
    graph = mg.read_graph(folder / "labelled.npz")
    truth: list[int] = graph.y.tolist()
    for name in ("y", "train_mask", "val_mask", "test_mask"):
        if name in graph:
            del graph[name]
    mg.write_graph(graph, folder / "target.npz")
    command("train", folder / "source.npz", "-o", folder / "model.safetensors")
    files = folder / "model.safetensors", folder / "target.npz"
    command("adapt", *files, "-o", folder / "out", "--ask", 20)
    return truth


def answer_on(page: Page, folder: Path, truth: list[int]) -> None:
    """Click through the questions and save the file."""
    with open(folder / "out" / "questions.csv", newline="") as file:
        nodes = [int(row["node"]) for row in csv.DictReader(file)]
    for place, node in enumerate(nodes):
        if place == 4:
            page.screenshot(path=HERE / "ask-page.png")
        page.keyboard.press(str(truth[node]))
    with page.expect_download() as started:
        page.get_by_role("button", name="Save answers.csv").click()
    started.value.save_as(folder / "answers.csv")


def main() -> None:
    """Make the run and its two pictures."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True)
    truth = prepare(folder)
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = browser.new_page(viewport={"width": 900, "height": 640})
        page.goto((folder / "out" / "questions.html").absolute().as_uri())
        answer_on(page, folder, truth)
        command("answer", folder / "out", folder / "answers.csv")
        page.goto((folder / "out" / "report.html").absolute().as_uri())
        page.locator("section", has=page.locator("#candidates")).screenshot(
            path=HERE / "ask-candidates.png"
        )


if __name__ == "__main__":
    main()
