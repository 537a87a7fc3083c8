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


def markdown_table(experiment: Experiment, cells: Sequence[Comparison]) -> str:
    """The same as Markdown: a row of ours, then a row of the paper's."""
    by_place = {(cell.row, cell.column): cell for cell in cells}
    shown = [row for row in experiment.rows if any(place[0] == row for place in by_place)]
    lines = [
        "| | " + " | ".join(experiment.columns) + " |",
        "|---" * (len(experiment.columns) + 1) + "|",
    ]
    for row in shown:
        found = [by_place.get((row, column)) for column in experiment.columns]
        ours = [_plain(c.ours_mean, c.ours_sd) if c else "·" for c in found]
        paper = [_plain(c.paper_mean, c.paper_sd) if c else "·" for c in found]
        lines.append(f"| **{row}**, ours | " + " | ".join(ours) + " |")
        lines.append(f"| {row}, paper | " + " | ".join(paper) + " |")
    return "\n".join(lines)


def _plain(value: float | None, deviation: float | None) -> str:
    if value is None:
        return "·"
    return f"{value:.2f}" + (f" ± {deviation:.2f}" if deviation is not None else "")
