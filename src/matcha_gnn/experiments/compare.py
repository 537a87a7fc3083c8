"""Our records beside the published numbers."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from matcha_gnn.errors import InvalidFileError
from matcha_gnn.experiments import store
from matcha_gnn.experiments.spec import Cell, Experiment, cells, published


@dataclass(frozen=True)
class Comparison:
    """One cell of a table over its seeds, in percent; paper fields are None where it has none."""

    name: str
    row: str
    column: str
    seeds: tuple[int, ...]
    ours_mean: float
    ours_sd: float | None
    paper_mean: float | None
    paper_sd: float | None

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def compare(experiment: Experiment, folder: Path) -> list[Comparison]:
    """Every cell of the table that has a record, in the table's order.

    Raises:
        InvalidFileError: nothing is recorded.
    """
    scores: dict[tuple[str, str], dict[int, float]] = {}
    for cell in _present(cells(experiment), folder):
        record = store.read(store.path_of(cell, folder))
        score = record["numbers"].get(cell.run.score)
        if score is not None:
            scores.setdefault((cell.row, cell.column), {})[cell.seed] = score
    if not scores:
        wanted = f"records; make them with: matcha reproduce {experiment.name}"
        raise InvalidFileError("results", f"{folder / experiment.name} (nothing there)", wanted)
    paper = published(experiment.name)
    return [
        _comparison(experiment.name, row, column, scores[row, column], paper)
        for row in experiment.rows
        for column in experiment.columns
        if (row, column) in scores
    ]


def _present(every: Iterable[Cell], folder: Path) -> Iterable[Cell]:
    return (cell for cell in every if store.recorded(cell, folder))


def _comparison(
    name: str, row: str, column: str, by_seed: dict[int, float], paper: Any
) -> Comparison:
    percent = [100 * by_seed[seed] for seed in sorted(by_seed)]
    printed: list[float] = paper.get(row, {}).get(column, [])
    paper_mean, paper_sd, *_ = *printed, None, None
    return Comparison(
        name=name,
        row=row,
        column=column,
        seeds=tuple(sorted(by_seed)),
        ours_mean=round(mean(percent), 3),
        ours_sd=round(stdev(percent), 3) if len(percent) > 1 else None,
        paper_mean=paper_mean,
        paper_sd=paper_sd,
    )
