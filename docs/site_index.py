"""A hook of MkDocs: the first page of the site is the README."""

from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

README = Path(__file__).parents[1] / "README.md"


def on_files(files: Files, *, config: Any) -> Files:
    """Add it, with its links as seen from the folder docs."""
    text = README.read_text().replace("](docs/", "](")
    files.append(File.generated(config, "index.md", content=text))
    return files
