"""Write the tables of the README anew from the committed records.

Run: python docs/refresh.py
"""

import re
from pathlib import Path

from matcha_gnn.experiments import compare, load
from matcha_gnn.files import replacing
from matcha_gnn.report.tables import markdown_table

PROJECT = Path(__file__).parents[1]
TABLES = ("table1",)


def refreshed(text: str) -> str:
    """The document with every table between its markers replaced."""
    for name in TABLES:
        experiment = load(name)
        table = markdown_table(experiment, compare(experiment, PROJECT / "results"))
        markers = re.compile(f"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
        text = markers.sub(lambda found, table=table: f"{found[1]}{table}\n{found[2]}", text)
    return text


if __name__ == "__main__":
    readme = PROJECT / "README.md"
    text = refreshed(readme.read_text())
    with replacing(readme) as beside:
        beside.write_text(text)
