"""A hook of MkDocs: formulas in LaTeX become MathML, which browsers draw without a script."""

import html
import re
from typing import Any

from latex2mathml.converter import convert

FORMULA = re.compile(
    r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>',
    re.DOTALL,
)


def on_page_content(content: str, **given: Any) -> str:
    """Replace what Arithmatex marked."""
    return FORMULA.sub(_drawn, content)


def _drawn(found: re.Match[str]) -> str:
    kind, latex = found.groups()
    display = "block" if kind == "div" else "inline"
    return convert(html.unescape(latex).strip(), display=display)
