"""The page of an experiment: our records beside the published numbers."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from matcha_gnn.report.figures import Picture
from matcha_gnn.report.svg import COLOURS, INK, WIDTH, inline_svg, sheet
from matcha_gnn.report.template import render, write
from matcha_paper.experiments import Comparison, Experiment, store
from matcha_paper.experiments.compare import ALL_NODES, STALE
from matcha_paper.experiments.spec import cells as all_cells
from matcha_paper.tables import STALE_LINE, summary_line

KINDS = (("base method alone", "o", COLOURS[0]), ("with adaptation", "^", COLOURS[1]))


def write_experiment_page(
    experiment: Experiment, cells: Sequence[Comparison], folder: Path, path: str | Path
) -> None:
    """Write the comparison as one HTML file that needs nothing else.

    Args:
        experiment: for titles and the order of rows and columns.
        cells: what `experiments.compare` returned.
        folder: where the records lie, for what they were made with.
        path: the file to write; it appears whole or not at all.
    """
    write(render_experiment_page(experiment, cells, folder), path)


def render_experiment_page(
    experiment: Experiment, cells: Sequence[Comparison], folder: Path
) -> str:
    """The page as text; arguments as in `write_experiment_page`."""
    recorded = {cell.row for cell in cells}
    known = [cell for cell in cells if cell.paper_mean is not None]
    return render(
        "experiment.html.j2",
        experiment=experiment,
        cells=cells,
        by_place={(cell.row, cell.column): cell for cell in cells},
        rows=[row for row in experiment.rows if row in recorded],
        summary=summary_line(experiment, cells) if known else None,
        pictures=[ours_against_paper(known)] if known else [],
        counted=f" ({ALL_NODES})",
        stale_mark=f" {STALE}",
        stale_line=STALE_LINE if any(cell.stale for cell in cells) else "",
        made_with=_made_with(experiment, folder),
        command=f"matcha reproduce {experiment.name}",
    )


def ours_against_paper(cells: Sequence[Comparison]) -> Picture:
    """One point per cell with a published number: ours over the paper's."""
    published = np.array([cell.paper_mean for cell in cells])
    ours = np.array([cell.ours_mean for cell in cells])
    adapted = np.array([" + " in cell.row for cell in cells])
    ends = np.array([min(published.min(), ours.min()), max(published.max(), ours.max())])
    with sheet(WIDTH) as (figure, axes):
        axes.plot(ends, ends, color=INK, linewidth=0.8, alpha=0.6)
        for (label, marker, colour), chosen in zip(KINDS, (~adapted, adapted), strict=True):
            axes.plot(published[chosen], ours[chosen], marker, color=colour, ms=4, label=label)
        axes.set(xlabel="published, percent", ylabel="ours, percent")
        axes.grid(True)
        axes.set_axisbelow(True)
        figure.legend(loc="outside upper center", ncols=2)
        apart = f"On average ours lie {np.mean(ours - published):+.2f} points from the published."
        apart = apart.replace("-", "−")
        svg = inline_svg(figure, "against", f"{len(cells)} points, ours over published. {apart}")
    caption = f"{apart} Above the line: ours are higher."
    return Picture("Ours against the published numbers", svg, caption)


def _made_with(experiment: Experiment, folder: Path) -> list[tuple[str, str]]:
    """What the records say they were made with, and how many say so."""
    found: dict[str, Counter[str]] = {}
    records = store.read(experiment.name, folder)
    for cell in all_cells(experiment):
        record = records.get((cell.column, cell.row, cell.seed))
        for name, value in _provenance(record) if record else ():
            found.setdefault(name, Counter())[value] += 1
    return [
        (name, "; ".join(f"{value} ({n:,} records)" for value, n in counts.most_common()))
        for name, counts in found.items()
    ]


def _provenance(record: dict[str, Any]) -> list[tuple[str, str]]:
    first = [("code", str(record["code"])), ("hardware", record["hardware"])]
    return first + list(record["versions"].items())
