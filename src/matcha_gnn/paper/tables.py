"""Tables of ours beside the published numbers: for the terminal, and as Markdown."""

import enum
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from matcha_gnn.paper.experiments import Comparison, Experiment
from matcha_gnn.paper.experiments.compare import ALL_NODES

if TYPE_CHECKING:
    from rich.table import Table


class Standing(enum.Enum):
    """Where a mean of ours lies to the published one: a colour here, a sign in Markdown."""

    ABOVE = ("green", "🟢", "at or above it")
    WITHIN_1 = ("cyan", "🔵", "within one published standard deviation below")
    WITHIN_2 = ("yellow", "🟡", "within two")
    BELOW = ("red", "🔴", "further below")

    @property
    def colour(self) -> str:
        """For the terminal."""
        return self.value[0]

    @property
    def sign(self) -> str:
        """For Markdown."""
        return self.value[1]


def apart(cell: Comparison) -> float | None:
    """Ours less the published mean, in published standard deviations.

    None without a published mean; in points where it has no deviation.

    Example:
        >>> apart(Comparison("t", "ERM", "a", (0, 1), 71.0, 0.3, 70.0, 0.5))
        2.0
    """
    if cell.paper_mean is None:
        return None
    return (cell.ours_mean - cell.paper_mean) / (cell.paper_sd or 1.0)


def standing(cell: Comparison) -> Standing | None:
    """Where a cell stands; None without a published number."""
    deviations = apart(cell)
    if deviations is None:
        return None
    limits = ((0, Standing.ABOVE), (-1, Standing.WITHIN_1), (-2, Standing.WITHIN_2))
    return next((found for limit, found in limits if deviations >= limit), Standing.BELOW)


def comparison_table(experiment: Experiment, cells: Sequence[Comparison]) -> "Table":
    """Ours above the published number in every cell, coloured by how far apart they are."""
    from rich.table import Table

    table = Table(
        title=experiment.title,
        title_justify="left",
        title_style="bold",
        caption="ours: mean ± s.d. over the seeds; in brackets: the paper's, and how far ours is "
        "from it in its s.d. (in points where it prints none)",
        caption_justify="left",
        show_lines=True,
    )
    table.add_column("")
    for column in experiment.columns:
        table.add_column(column, justify="right")
    by_place = {(cell.row, cell.column): cell for cell in cells}
    for row in experiment.rows:
        texts = [_text(by_place.get((row, column))) for column in experiment.columns]
        table.add_row(row, *texts)
    return table


def _text(cell: Comparison | None) -> str:
    if cell is None:
        return "·"
    ours, stands = _ours(cell), standing(cell)
    if stands is None:
        return ours
    paper = f"({_plain(cell.paper_mean, cell.paper_sd)}; {apart(cell):+.1f})"
    return f"[{stands.colour}]{ours}[/]\n{paper}"


def markdown_table(
    experiment: Experiment, cells: Sequence[Comparison], methods: Sequence[str] = ()
) -> str:
    """The same as Markdown: a row of ours, then a row of the paper's where it has one.

    Args:
        experiment: for the order of rows and columns.
        cells: what to show.
        methods: show the rows of these base methods only; all by default.
    """
    by_place = {(cell.row, cell.column): cell for cell in cells}
    recorded = {cell.row for cell in cells}
    shown = [
        row
        for row in experiment.rows
        if row in recorded and (not methods or row.split(" + ")[0] in methods)
    ]
    lines = [
        "| | " + " | ".join(experiment.columns) + " |",
        "|---" * (len(experiment.columns) + 1) + "|",
    ]
    for row in shown:
        found = [by_place.get((row, column)) for column in experiment.columns]
        ours = [_ours(c) if c else "·" for c in found]
        lines.append(f"| **{row}**, ours | " + " | ".join(ours) + " |")
        if any(c and c.paper_mean is not None for c in found):
            lines.append(f"| {row}, paper | " + " | ".join(map(_beside, found)) + " |")
    return "\n".join(lines)


def _beside(cell: Comparison | None) -> str:
    """The paper's number, and how far ours is from it."""
    stands = standing(cell) if cell else None
    if cell is None or stands is None:
        return "·"
    deviations = f"{apart(cell):+.1f}".replace("-", "−")
    return f"{_plain(cell.paper_mean, cell.paper_sd)} {stands.sign} {deviations}"


def summary_line(experiment: Experiment, cells: Sequence[Comparison]) -> str:
    """How the accuracies that have a published number stand to it."""
    known = [
        cell
        for cell in cells
        if cell.paper_mean is not None and experiment.rows[cell.row].score == "accuracy"
    ]
    count = Counter(standing(cell) for cell in known)
    parts = ", ".join(f"{count[each]} {each.value[2]} {each.sign}" for each in Standing)
    near = sum(c.ours_mean >= (c.paper_mean or 0) - 1 for c in known)
    return (
        f"{len(known)} cells with a published number: {parts}; "
        f"{near} at or above it minus one point."
    )


def _ours(cell: Comparison) -> str:
    mark = f" ({ALL_NODES})" if cell.all_nodes else ""
    return _plain(cell.ours_mean, cell.ours_sd) + mark


def _plain(value: float | None, deviation: float | None) -> str:
    if value is None:
        return "·"
    return f"{value:.2f}" + (f" ± {deviation:.2f}" if deviation is not None else "")
