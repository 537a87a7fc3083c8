"""Our records beside the published numbers."""

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from matcha_gnn.paper.experiments import store
from matcha_gnn.paper.experiments.spec import (
    Experiment,
    cells,
    counted_over_all_nodes,
    published,
)

ALL_NODES = "all nodes"
"""How a number is marked that counts training nodes of the target too."""


@dataclass(frozen=True)
class Comparison:
    """One cell of a table over its seeds, in percent; paper fields are None where it has none.

    `all_nodes` is True where the published number counts training nodes of the target too: then
    ours does as well.
    """

    name: str
    row: str
    column: str
    seeds: tuple[int, ...]
    ours_mean: float
    ours_sd: float | None
    paper_mean: float | None
    paper_sd: float | None
    all_nodes: bool = False

    def as_dict(self) -> dict[str, Any]:
        """For JSON; the row's name says where all nodes are counted."""
        numbers = asdict(self)
        if numbers.pop("all_nodes"):
            numbers["row"] += f" ({ALL_NODES})"
        return numbers


def compare(experiment: Experiment, folder: Path) -> list[Comparison]:
    """Every cell of the table that has a record, in the table's order.

    Raises:
        InvalidFileError: nothing is recorded.
    """
    scores: dict[tuple[str, str], dict[int, float]] = {}
    over_all = counted_over_all_nodes(experiment.name)
    for cell, record in store.recorded(cells(experiment), folder):
        if record is None:
            continue
        place = cell.row, cell.column
        score = record["numbers"].get("accuracy_all" if place in over_all else cell.run.score)
        if score is not None:
            scores.setdefault(place, {})[cell.seed] = score
    if not scores:
        raise store.nothing_recorded([experiment.name], folder)
    paper = published(experiment.name)
    return [
        replace(
            _comparison(experiment.name, row, column, scores[row, column], paper),
            all_nodes=(row, column) in over_all,
        )
        for row in experiment.rows
        for column in experiment.columns
        if (row, column) in scores
    ]


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
