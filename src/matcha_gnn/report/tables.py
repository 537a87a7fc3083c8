"""Tables for the terminal."""

from collections.abc import Sequence

from rich.table import Table

from matcha_gnn.experiments import Comparison, Experiment


def comparison_table(experiment: Experiment, cells: Sequence[Comparison]) -> Table:
    """Ours above the published number in every cell, coloured by how far apart they are."""
    table = Table(
        title=experiment.title,
        title_justify="left",
        title_style="bold",
        caption="ours: mean ± s.d. over the seeds; in brackets: the paper's",
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
    ours = f"{cell.ours_mean:.2f}" + (f" ± {cell.ours_sd:.2f}" if cell.ours_sd else "")
    if cell.paper_mean is None:
        return ours
    colour = "green" if cell.ours_mean >= cell.paper_mean - 1 else "yellow"
    if cell.ours_mean < cell.paper_mean - max(1.5, 2 * (cell.paper_sd or 0)):
        colour = "red"
    return f"[{colour}]{ours}[/{colour}]\n({cell.paper_mean:.2f} ± {cell.paper_sd:.2f})"


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
        ours = [_plain(c.ours_mean, c.ours_sd) if c else "·" for c in found]
        paper = [_plain(c.paper_mean, c.paper_sd) if c else "·" for c in found]
        lines.append(f"| **{row}**, ours | " + " | ".join(ours) + " |")
        if any(c and c.paper_mean is not None for c in found):
            lines.append(f"| {row}, paper | " + " | ".join(paper) + " |")
    return "\n".join(lines)


def summary_line(cells: Sequence[Comparison]) -> str:
    """How the cells that have a published number stand to it."""
    known = [(c.ours_mean - c.paper_mean, c.paper_sd or 0) for c in cells if c.paper_mean]
    at = sum(apart >= 0 for apart, _ in known)
    near = sum(apart >= -1 for apart, _ in known)
    within = sum(abs(apart) <= 2 * deviation for apart, deviation in known)
    return (
        f"{len(known)} cells with a published number: {at} at or above it, {near} at or above it "
        f"minus one point, {within} within two published standard deviations."
    )


def _plain(value: float | None, deviation: float | None) -> str:
    if value is None:
        return "·"
    return f"{value:.2f}" + (f" ± {deviation:.2f}" if deviation is not None else "")
