"""Source models and graphs of a figure: those of a table's column, made once in a process."""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from matcha_gnn.gamma.models import Backbone
from matcha_paper.experiments import Experiment, load, run_all
from matcha_paper.experiments.source_models import cached_source, make_graph
from matcha_paper.experiments.spec import Cell, cells, quick, source_model
from matcha_paper.figures.numbers import Effort

if TYPE_CHECKING:
    from torch_geometric.data import Data


class Setting(NamedTuple):
    """A trained source model, its graph and the target graph, on one device."""

    model: Backbone
    source: "Data"
    target: "Data"


def setting(table: str, column: str, seed: int, effort: Effort) -> Setting:
    """What the cells of a table's column adapt.

    Args:
        table: name of an experiment.
        column: of it.
        seed: of training and, where graphs are drawn, of the graphs.
        effort: small graphs and short training, if it is quick; and the device.
    """
    cell = _cell(table, column, seed, effort.quick)
    source, target = (make_graph(g).to(effort.device) for g in (cell.source, cell.target))
    model = _trained(_Trained(cell), effort.results, effort.device)
    return Setting(model, source, target)


def run_tables(tables: Sequence[Experiment], effort: Effort) -> None:
    """Run the cells of tables that are missing or stale."""
    run_all(
        tables,
        effort.results,
        seeds=effort.seeds,
        jobs=effort.jobs,
        device=effort.device,
        progress=effort.progress,
    )


def _cell(table: str, column: str, seed: int, small: bool) -> Cell:
    experiment = quick(load(table)) if small else load(table)
    return next(c for c in cells(experiment, (seed,)) if c.column == column)


class _Trained:
    """A cell, equal to every other that has the same source model."""

    def __init__(self, cell: Cell) -> None:
        self.cell, self._key = cell, source_model(cell)

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Trained) and self._key == other._key


@lru_cache(maxsize=16)
def _trained(wanted: _Trained, results: Path, device: str) -> Backbone:
    return cached_source(wanted.cell, results, device).model
