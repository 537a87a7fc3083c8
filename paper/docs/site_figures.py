"""A hook of MkDocs: the site shows figures, which lie beside their numbers under `results`."""

from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

FIGURES = Path(__file__).parents[2] / "results" / "figures"
IN_PAGES = "../../../results/figures/"
FOLDER = "figures/"


def on_files(files: Files, *, config: Any) -> Files:
    """Add every picture to the site."""
    for picture in sorted(FIGURES.glob("*/*.png")):
        place = FOLDER + picture.relative_to(FIGURES).as_posix()
        files.append(File.generated(config, place, abs_src_path=str(picture)))
    return files


def on_page_markdown(markdown: str, **given: Any) -> str:
    """Point to them where a page shows one."""
    return markdown.replace(f"]({IN_PAGES}", f"](../{FOLDER}")
