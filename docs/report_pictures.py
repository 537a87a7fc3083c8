"""Draws the pictures of README.md and ask.md: the run of the README, and its questions.

Run: python docs/report_pictures.py FOLDER, where FOLDER gets the pages. It needs playwright and
Chromium, and writes docs/report.png and docs/ask-page.png.
"""

import io
import os
import re
import shutil
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

HERE = Path(__file__).parent
COLOURS = 64
"""Of a picture: enough for a page, and a third of the bytes."""


def write_pages(folder: Path) -> None:
    """Run the first piece of code in the README, and ask about its result."""
    (code, *_) = re.findall(r"```python\n(.*?)```", (HERE.parent / "README.md").read_text(), re.S)
    names: dict[str, object] = {}
    os.chdir(folder)
    exec(compile(code, "README.md", "exec"), names)
    result = names["result"]
    result.report("report.html")  # type: ignore[attr-defined]
    result.ask(20).to_html("questions.html")  # type: ignore[attr-defined]


def save(page: Page, name: str) -> None:
    """A picture of what the window shows."""
    picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    picture.quantize(COLOURS).save(HERE / name, optimize=True)


def main() -> None:
    """Write the pages and their pictures."""
    folder = Path(sys.argv[1]).absolute()
    folder.mkdir(parents=True)
    write_pages(folder)
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = browser.new_page(viewport={"width": 1000, "height": 950})
        page.goto((folder / "report.html").as_uri())
        save(page, "report.png")
        page.set_viewport_size({"width": 900, "height": 640})
        page.goto((folder / "questions.html").as_uri())
        save(page, "ask-page.png")


if __name__ == "__main__":
    main()
