"""Accuracy on the path of γ, round by round, beside the published number."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from matcha_paper.experiments import load, store
from matcha_paper.experiments.spec import Cell, cells, groups, published, quick
from matcha_paper.figures.numbers import Effort, Rows, column, distinct, mean_sd, select
from matcha_paper.figures.settings import run_tables
from matcha_paper.figures.style import COLOURS, band, label, panels, save

TABLE = "table1"
METHODS = ("ERM + Matcha", "T3A + Matcha")
WIDE = 4
"""Panels in a row."""


def measure(effort: Effort) -> Rows:
    """Curves of the records of Table 1, run where they are missing: means over the seeds."""
    table = quick(load(TABLE)) if effort.quick else load(TABLE)
    table = replace(
        table,
        rows={row: table.rows[row] for row in METHODS},
        columns={name: table.columns[name] for name in groups(table)[""]},
    )
    run_tables([table], effort)
    curves = _curves(cells(table, effort.seeds), effort.results)
    return [
        {"column": place[0], "row": place[1], "round": number, "published": _paper(*place)}
        | dict(zip(("accuracy", "accuracy_sd"), mean_sd(at_round), strict=True))
        for place, by_seed in curves.items()
        for number, at_round in enumerate(zip(*by_seed, strict=False))
    ]


def _curves(wanted: Iterable[Cell], results: Path) -> dict[tuple[str, str], list[list[float]]]:
    """Accuracy in percent by column and row, then by seed and round."""
    found: dict[tuple[str, str], list[list[float]]] = {}
    for cell, record in store.recorded(list(wanted), results):
        if record is not None and "curve" in record["numbers"]:
            percent = [100 * share for share in record["numbers"]["curve"]]
            found.setdefault((cell.column, cell.row), []).append(percent)
    return dict(sorted(found.items(), key=lambda each: METHODS.index(each[0][1])))


def _paper(name: str, row: str) -> float:
    return published(TABLE)[row][name][0]


def draw(rows: Rows, folder: Path) -> list[Path]:
    """A panel for each column; published numbers are dashed."""
    names = distinct(rows, "column")
    lines = -(-len(names) // WIDE)
    with panels(lines, WIDE, width=12, height=2.8) as (figure, axes):
        for one in axes.flat[len(names) :]:
            one.set_visible(False)
        for name, one in zip(names, axes.flat, strict=False):
            for number, row in enumerate(METHODS):
                part = select(rows, column=name, row=row)
                if part:
                    x, mean, sd = (column(part, k) for k in ("round", "accuracy", "accuracy_sd"))
                    band(one, x, mean, sd, number, row)
                    one.axhline(part[0]["published"], color=COLOURS[number], linestyle="--")
            label(one, "rounds", "accuracy (%)", name)
        figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=2)
        return save(figure, folder, "path")
