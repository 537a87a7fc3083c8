"""A hook of MkDocs: a page for every object that api.md names, under its public name.

A line "- `mg.adapt`" of api.md becomes a link with the first sentence of the docstring, and
api/adapt.md is made beside it. The site names the version of the package.
"""

import inspect
import re
import sys
from functools import reduce
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "src"))

import matcha_gnn as mg  # noqa: E402 (the package beside these pages)

LIST = HERE / "api.md"
ENTRY = re.compile(r"^- `mg\.([\w.]+)`$", re.MULTILINE)
PAGE = """::: {path}
    options:
      heading: mg.{name}
      heading_level: 1
"""


def found(name: str) -> Any:
    """The object with a public name, such as "datasets.csbm"."""
    return reduce(getattr, name.split("."), mg)


def path_of(name: str) -> str:
    """Where it is defined, as mkdocstrings looks it up."""
    thing = found(name)
    if inspect.ismodule(thing):
        return thing.__name__
    return f"{thing.__module__}.{thing.__qualname__}"


def groups() -> dict[str, list[str]]:
    """Names by heading, in the order of api.md."""
    _, *sections = re.split(r"^## ", LIST.read_text(), flags=re.MULTILINE)
    return {text.splitlines()[0]: ENTRY.findall(text) for text in sections}


def on_config(config: Any) -> Any:
    """Put the pages into the navigation, and the version at the foot of each."""
    pages = [
        {group: [{f"mg.{name}": f"api/{name}.md"} for name in names]}
        for group, names in groups().items()
    ]
    place = config["nav"].index({"API": "api.md"})
    config["nav"][place] = {"API": [{"All names": "api.md"}, *pages]}
    config["copyright"] = f"matcha-gnn {mg.__version__}, MIT licence"
    return config


def on_files(files: Files, *, config: Any) -> Files:
    """Make the pages."""
    for names in groups().values():
        for name in names:
            text = PAGE.format(name=name, path=path_of(name))
            files.append(File.generated(config, f"api/{name}.md", content=text))
    return files


def on_page_markdown(markdown: str, *, page: Any, **given: Any) -> str:
    """Link the names of api.md to their pages."""
    return ENTRY.sub(_linked, markdown) if page.file.src_uri == "api.md" else markdown


def _linked(entry: re.Match[str]) -> str:
    name = entry[1]
    sentence = (inspect.getdoc(found(name)) or "").split("\n\n")[0].replace("\n", " ")
    return f"- [`mg.{name}`](api/{name}.md): {sentence}"
