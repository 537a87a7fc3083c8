"""The figure that every drawing uses, and its conversion to inline SVG.

Inline SVG shares ids and styles with its page, and `currentColor` is the page's text colour, so one
drawing is readable on a light and on a dark background.
"""

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from matcha_gnn.report.palette import LINES

WIDTH, HEIGHT = 4.0, 2.6
"""Inches. At 288 points wide, 9-point text is 9 pixels high on a phone of 360 pixels."""
INK = "#010203"
"""Stands for the page's text colour, which matplotlib has no name for."""
COLOURS = (*LINES, INK)
STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.formatter.useoffset": False,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "grid.alpha": 0.18,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "text.parse_math": False,
} | dict.fromkeys(
    (
        "axes.edgecolor",
        "axes.labelcolor",
        "grid.color",
        "hatch.color",
        "text.color",
        "xtick.color",
        "ytick.color",
    ),
    INK,
)


@contextmanager
def sheet(height: float = HEIGHT) -> Iterator[tuple[Figure, Axes]]:
    """An empty figure in the report's style, whatever the caller's matplotlib settings.

    Ticks and text read the style when they are rendered: call `inline_svg` inside the block.

    Args:
        height: in inches; the width is always `WIDTH`.

    Yields:
        The figure and its only axes.
    """
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(STYLE)
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        yield figure, figure.add_subplot()


def inline_svg(figure: Figure, name: str, description: str) -> str:
    """Render a figure as an `<svg>` element that scales and has an accessible name.

    Args:
        figure: drawn on a `sheet`.
        name: unique on the page; ids are made from it.
        description: text for readers who do not see the figure.

    Returns:
        The same bytes for the same figure, name and description.
    """
    # Without a fixed salt the ids of clip paths and markers are random.
    matplotlib.rcParams["svg.hashsalt"] = name
    buffer = io.StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    figure.savefig(buffer, format="svg", transparent=True, metadata=nothing)
    return _embedded(buffer.getvalue(), description)


def _embedded(document: str, description: str) -> str:
    """The drawing of a matplotlib SVG document, in a new element."""
    head, body = re.split(r"(?<=>)", document[document.index("<svg") :], maxsplit=1)
    box = re.findall(r'viewBox="[^"]*"', head)[0]
    # The style sheet would apply to the whole page; its one rule is an attribute of the element.
    body = re.sub(r"<!--.*?-->|<style.*?</style>|<defs>\s*</defs>", "", body, flags=re.DOTALL)
    body = _without_unused_ids(body).replace(INK, "currentColor")
    body = re.sub(r"<[^>]+>", lambda tag: _rounded(tag[0]), body)
    body = re.sub(r"\s*\n\s*", "\n", body)
    name = escape(description)
    return f'<svg role="img" aria-label="{name}" {box} stroke-linejoin="round">{body.strip()}'


def _without_unused_ids(body: str) -> str:
    """Drop ids such as axes_1, which would occur once per figure on the page."""
    used = set(re.findall(r'(?:url\(|href=")#([^")]+)', body))
    return re.sub(r' id="([^"]*)"', lambda found: found[0] if found[1] in used else "", body)


def _rounded(tag: str) -> str:
    """Round numbers to hundredths of a point."""
    return re.sub(r"\d+\.\d{3,}", lambda number: f"{float(number[0]):.2f}", tag)
