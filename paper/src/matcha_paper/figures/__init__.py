"""The paper's figures: numbers as CSV, drawn as SVG and PNG from that file alone."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from matcha_paper.figures import cover, curves, gamma, path, pictures, shifts, time
from matcha_paper.figures.numbers import Effort, Rows, read_rows, write_rows

__all__ = ["FIGURES", "Effort", "Figure", "Rows", "csv_of", "drawn", "read_rows", "reproduced"]


@dataclass(frozen=True)
class Figure:
    """How a figure is made.

    Attributes:
        title: one line for the list.
        measure: runs what is needed and gives the numbers.
        draw: from these numbers to files in a folder.
    """

    title: str
    measure: Callable[[Effort], Rows]
    draw: Callable[[Rows, Path], list[Path]]


FIGURES: dict[str, Figure] = {
    "cover": Figure(
        "Generic methods under attribute and structure shift", cover.measure, cover.draw
    ),
    "pattern": Figure(
        "What the two shifts do to the classes", shifts.measure_pattern, shifts.draw_pattern
    ),
    "gap": Figure("Δf and Δg, measured and from theory", shifts.measure_gap, shifts.draw_gap),
    "gamma": Figure("Two examples of adapting γ", gamma.measure, gamma.draw),
    "representations": Figure(
        "t-SNE before and after, for each loss",
        pictures.measure_representations,
        pictures.draw_representations,
    ),
    "logits": Figure(
        "Noisy predictions over the rounds", pictures.measure_logits, pictures.draw_logits
    ),
    "parameters": Figure(
        "γ, θ or both: loss and accuracy", curves.measure_parameters, curves.draw_parameters
    ),
    "learning-rate": Figure(
        "Step sizes: loss and accuracy", curves.measure_rates, curves.draw_rates
    ),
    "path": Figure("Accuracy on the path of γ, round by round", path.measure, path.draw),
    "time": Figure("Time of a round beside one inference", time.measure, time.draw),
}


def csv_of(name: str, results: Path) -> Path:
    """Where a figure's numbers lie."""
    return results / "figures" / name / f"{name}.csv"


def reproduced(name: str, effort: Effort) -> list[Path]:
    """Measure a figure anew, write its numbers and draw it; the files written."""
    rows = FIGURES[name].measure(effort)
    write_rows(rows, csv_of(name, effort.results))
    return drawn(name, effort.results)


def drawn(name: str, results: Path) -> list[Path]:
    """Draw a figure from its CSV file; the files written."""
    numbers = csv_of(name, results)
    return [numbers, *FIGURES[name].draw(read_rows(numbers), numbers.parent)]
