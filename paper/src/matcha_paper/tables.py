"""Tables of ours beside the published numbers: for the terminal, and as Markdown."""

import enum
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from matcha_paper.experiments import Comparison, Experiment
from matcha_paper.experiments.compare import ALL_NODES, STALE
from matcha_paper.experiments.spec import groups

if TYPE_CHECKING:
    from rich.table import Table


STALE_LINE = (
    f"{STALE} stale: the table would be made otherwise now, on other graphs, with another version "
    "of the algorithm, or from source models that rows share (matcha reproduce --stale)"
)
GAIN_LINE = (
    "Mean ± s.d. of the differences to the base row over seeds that share the source model, and at "
    "how many seeds it is above"
)


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


def comparison_tables(experiment: Experiment, cells: Sequence[Comparison]) -> Iterator["Table"]:
    """A table for each group of columns that has records, then the gains over base rows.

    Ours stands above the published number in every cell, coloured by how far apart they are.
    """
    by_place = {(cell.row, cell.column): cell for cell in cells}
    caption = (
        "ours: mean ± s.d. over the seeds; in brackets: the paper's, and how far ours is from it "
        "in its s.d. (in points where it prints none)"
    )
    if any(cell.stale for cell in cells):
        caption += f"\n{STALE_LINE}"
    for title, columns in _shown_groups(experiment, cells).items():
        table = _rich_table(f"{experiment.title}{title and ', '}{title}", columns, caption)
        for row in experiment.rows:
            table.add_row(row, *(_text(by_place.get((row, column))) for column in columns))
        yield table
        based = [row for row in experiment.rows if _has_gain(row, columns, by_place)]
        if based:
            table = _rich_table(
                f"Gain over the base row{title and ', '}{title}", columns, GAIN_LINE
            )
            for row in based:
                table.add_row(row, *(_gain(by_place.get((row, column))) for column in columns))
            yield table


def _rich_table(title: str, columns: Sequence[str], caption: str) -> "Table":
    from rich.table import Table

    table = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        caption=caption,
        caption_justify="left",
        show_lines=True,
    )
    table.add_column("")
    for column in columns:
        table.add_column(column, justify="right")
    return table


def _shown_groups(experiment: Experiment, cells: Sequence[Comparison]) -> dict[str, list[str]]:
    """Groups of columns of which some cell is recorded."""
    recorded = {cell.column for cell in cells}
    return {
        title: columns for title, columns in groups(experiment).items() if recorded & set(columns)
    }


def _has_gain(
    row: str, columns: Sequence[str], by_place: Mapping[tuple[str, str], Comparison]
) -> bool:
    found = (by_place.get((row, column)) for column in columns)
    return any(cell is not None and cell.gain is not None for cell in found)


def _gain(cell: Comparison | None) -> str:
    """Mean ± s.d. of the differences, and at how many seeds the row is above its base."""
    if cell is None or cell.gain is None:
        return "·"
    gain = cell.gain
    deviation = "" if gain.sd is None else f" ± {gain.sd:.2f}"
    text = f"{gain.mean:+.2f}{deviation}, {gain.better} of {len(cell.seeds)}"
    return text.replace("-", "−")


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
    parts = []
    for title, columns in _shown_groups(experiment, cells).items():
        lines = [f"{title[0].upper()}{title[1:]}:", ""] if title else []
        lines += _markdown_head(columns)
        for row in shown:
            found = [by_place.get((row, column)) for column in columns]
            ours = [_ours(c) if c else "·" for c in found]
            lines.append(f"| **{row}**, ours | " + " | ".join(ours) + " |")
            if any(c and c.paper_mean is not None for c in found):
                lines.append(f"| {row}, paper | " + " | ".join(map(_beside, found)) + " |")
        parts.append("\n".join(lines))
    if any(by_place[place].stale for place in by_place if place[0] in shown):
        parts.append(STALE_LINE)
    return "\n\n".join(parts)


def _markdown_head(columns: Sequence[str]) -> list[str]:
    return ["| | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]


def gain_table(experiment: Experiment, cells: Sequence[Comparison]) -> str:
    """Each row less its base row, seed by seed, as Markdown.

    Args:
        experiment: for the order of rows and columns.
        cells: what to show.
    """
    by_place = {(cell.row, cell.column): cell for cell in cells}
    parts = []
    for columns in _shown_groups(experiment, cells).values():
        rows = [row for row in experiment.rows if _has_gain(row, columns, by_place)]
        if rows:
            lines = [
                f"| {row} | "
                + " | ".join(_gain(by_place.get((row, column))) for column in columns)
                + " |"
                for row in rows
            ]
            parts.append("\n".join(_markdown_head(columns) + lines))
    nothing = "No two rows are recorded with the same source models yet."
    return "\n\n".join([*parts, GAIN_LINE]) if parts else nothing


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
    mark += f" {STALE}" if cell.stale else ""
    return _plain(cell.ours_mean, cell.ours_sd) + mark


def _plain(value: float | None, deviation: float | None) -> str:
    if value is None:
        return "·"
    return f"{value:.2f}" + (f" ± {deviation:.2f}" if deviation is not None else "")
