"""Write the tables of the documents anew from the committed records.

A table stands between `<!-- NAME -->` and `<!-- /NAME -->`; `<!-- NAME: ERM, Tent -->` shows the
rows of these base methods only, `<!-- NAME summary: Matcha -->` counts the rows of that name.

Run: python docs/refresh.py
"""

import re
from pathlib import Path

from matcha_gnn.experiments import compare, load
from matcha_gnn.experiments.spec import names
from matcha_gnn.files import replacing
from matcha_gnn.report.tables import markdown_table, summary_line

PROJECT = Path(__file__).parents[1]
DOCUMENTS = (PROJECT / "README.md", PROJECT / "docs" / "results.md")


def refreshed(text: str) -> str:
    """The document with every table between its markers replaced."""
    for name in names():
        opening = rf"(<!-- {name}( summary)?(?:: ([^>]*?))? -->\n).*?(<!-- /{name} -->)"
        markers = re.compile(opening, re.DOTALL)
        text = markers.sub(lambda found, name=name: _filled(name, found), text)
    return text


def _filled(name: str, found: re.Match[str]) -> str:
    opening, summary, wanted, closing = found.groups()
    experiment = load(name)
    cells = compare(experiment, PROJECT / "results")
    if summary:
        body = summary_line(experiment, [c for c in cells if not wanted or wanted in c.row])
    else:
        body = markdown_table(experiment, cells, wanted.split(", ") if wanted else ())
    return f"{opening}{body}\n{closing}"


if __name__ == "__main__":
    for document in DOCUMENTS:
        text = refreshed(document.read_text())
        with replacing(document) as beside:
            beside.write_text(text)
