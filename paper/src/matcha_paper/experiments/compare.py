"""Our records beside the published numbers, and rows beside the rows they are based on."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any, NamedTuple

from matcha_paper.experiments import store
from matcha_paper.experiments.current import faults
from matcha_paper.experiments.pairs import Paired, paired
from matcha_paper.experiments.spec import (
    Experiment,
    cells,
    counted_over_all_nodes,
    published,
)

ALL_NODES = "all nodes"
"""How a number is marked that counts training nodes of the target too."""
STALE = "†"
"""How a number is marked whose records are stale."""


@dataclass(frozen=True)
class Comparison:
    """One cell of a table over its seeds, in percent; paper fields are None where it has none.

    `all_nodes` is True where the published number counts training nodes of the target too: then
    ours does as well. `stale` is True where the table would be made otherwise now. `gain` is the
    difference to the row that this one is based on, None where there is none, and where they do not
    share their source models.
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
    stale: bool = False
    gain: Paired | None = None

    def as_dict(self) -> dict[str, Any]:
        """For JSON; the row's name says where all nodes are counted."""
        numbers = asdict(self)
        if numbers.pop("all_nodes"):
            numbers["row"] += f" ({ALL_NODES})"
        return numbers


class Score(NamedTuple):
    """A number of a record in percent, the source model behind it, and whether it is stale."""

    value: float
    model: str | None
    stale: bool


Scores = dict[tuple[str, str], dict[int, Score]]


def compare(experiment: Experiment, folder: Path) -> list[Comparison]:
    """Every cell of the table that has a record, in the table's order.

    Where some seeds of a cell have a current record and others a stale one, the current ones
    count.

    Raises:
        InvalidFileError: nothing is recorded.
    """
    over_all = counted_over_all_nodes(experiment.name)
    shown, plain = (_scores(experiment, folder, places) for places in (over_all, set()))
    if not shown:
        raise store.nothing_recorded([experiment.name], folder)
    return [
        _comparison(
            experiment, place, shown[place], place in over_all, _gain(experiment, place, plain)
        )
        for place in _places(experiment)
        if place in shown
    ]


def _scores(experiment: Experiment, folder: Path, over_all: set[tuple[str, str]]) -> Scores:
    found: Scores = {}
    for cell, record in store.recorded(cells(experiment), folder):
        place = cell.row, cell.column
        key = "accuracy_all" if place in over_all else cell.run.score
        if record is None or record["numbers"].get(key) is None:
            continue
        model = (record.get("model") or {}).get("hash")
        score = Score(100 * record["numbers"][key], model, bool(faults(record, cell)))
        found.setdefault(place, {})[cell.seed] = score
    return {place: _current(by_seed) for place, by_seed in found.items()}


def _current(by_seed: dict[int, Score]) -> dict[int, Score]:
    current = {seed: score for seed, score in by_seed.items() if not score.stale}
    return current or by_seed


def _places(experiment: Experiment) -> list[tuple[str, str]]:
    return [(row, column) for row in experiment.rows for column in experiment.columns]


def _gain(experiment: Experiment, place: tuple[str, str], scores: Scores) -> Paired | None:
    """Over the seeds at which a row and its base adapt the same source model."""
    row, column = place
    base = experiment.rows[row].base
    ours, theirs = scores.get(place, {}), scores.get((base, column), {})
    shared = [
        seed
        for seed in ours.keys() & theirs.keys()
        if ours[seed].model is not None and ours[seed].model == theirs[seed].model
    ]
    first, second = ({seed: of[seed].value for seed in shared} for of in (ours, theirs))
    return paired(base, first, second)


def _comparison(
    experiment: Experiment,
    place: tuple[str, str],
    by_seed: Mapping[int, Score],
    all_nodes: bool,
    gain: Paired | None,
) -> Comparison:
    row, column = place
    percent = [by_seed[seed].value for seed in sorted(by_seed)]
    printed = published(experiment.name).get(row, {}).get(column, ())
    paper_mean, paper_sd, *_ = *printed, None, None
    return Comparison(
        name=experiment.name,
        row=row,
        column=column,
        seeds=tuple(sorted(by_seed)),
        ours_mean=round(mean(percent), 3),
        ours_sd=round(stdev(percent), 3) if len(percent) > 1 else None,
        paper_mean=paper_mean,
        paper_sd=paper_sd,
        all_nodes=all_nodes,
        stale=any(score.stale for score in by_seed.values()),
        gain=gain,
    )
