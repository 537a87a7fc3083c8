"""An experiment is a TOML file, read into frozen dataclasses; an unknown key is an error."""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cache
from importlib import resources
from typing import Any, TypeVar

from matcha_gnn.errors import InvalidArgumentError
from matcha_gnn.registry import resolve

T = TypeVar("T")

OURS, BELIEF = "ours", "belief"
"""What a row calls the default of `adapt`, and its pool taken unguarded; neither has a loss."""
DRAWN = ("csbm",)
"""Generators whose graphs differ between seeds; other data sets have one graph."""
RELEASED = "released_csbm"
"""The generator of the graphs of the published CSBM runs, `paper.datasets.released_csbm`."""
SMALL = {"csbm": {"num_nodes": 600, "num_features": 100}, "syn_cora": {}}
"""Data sets of quick runs, and how they are made small."""
SLOW = ("graphpatcher",)
"""Methods that quick runs leave out."""


@dataclass(frozen=True)
class TrainSpec:
    """How the source model is trained; without `alpha` with that of its architecture."""

    backbone: str
    hidden_channels: int
    K: int
    epochs: int
    lr: float
    weight_decay: float
    ship: tuple[str, ...] = ()
    alpha: float | None = None


@dataclass(frozen=True)
class ColumnSpec:
    """A source graph and a target graph: options of the data set, by `datasets.named.make_graph`.

    `train` holds what this column trains differently; `attack`, where it is given, the options of
    `attack.attacked`: an adversary who knows the source model changes the target's edges.
    Columns of a `group` are shown together, apart from those that have none.
    """

    source: Mapping[str, Any]
    target: Mapping[str, Any]
    train: Mapping[str, Any] = field(default_factory=dict)
    attack: Mapping[str, Any] = field(default_factory=dict)
    group: str = ""


@dataclass(frozen=True)
class RowSpec:
    """A base method, alone (epochs = 0) or inside Matcha.

    `base` names the row that this one is compared with; method and options are that row's.
    `only` holds settings for single columns, by the column's name. With `stream` the model is
    adapted to the targets of the columns one after the other, each time carrying on from where it
    was. `score` is the number of the record that the table shows. `features` says whose
    representation enters the loss (`Matcha`).
    """

    method: str
    method_options: Mapping[str, Any] = field(default_factory=dict)
    base: str = ""
    loss: str = "pic"
    optimizer: str = "sgd"
    lr: float = 1.0
    epochs: int = 50
    features: str = "source"
    only: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    stream: bool = False
    score: str = "accuracy"

    def at(self, column: str) -> "RowSpec":
        """The settings that hold in one column."""
        settings = {f.name: getattr(self, f.name) for f in fields(self)}
        return _build(RowSpec, settings | {"only": {}} | dict(self.only.get(column, {})), column)


@dataclass(frozen=True)
class Experiment:
    """A table of the paper: columns × rows × seeds."""

    name: str
    title: str
    seeds: tuple[int, ...]
    data: Mapping[str, Any]
    train: TrainSpec
    columns: Mapping[str, ColumnSpec]
    rows: Mapping[str, RowSpec]


@dataclass(frozen=True)
class Cell:
    """One number: a column, a row and a seed of an experiment.

    `before` holds the targets that the model was adapted to on the way, `attack` how the target's
    edges were changed.
    """

    experiment: str
    column: str
    row: str
    seed: int
    source: Mapping[str, Any]
    target: Mapping[str, Any]
    train: TrainSpec
    run: RowSpec
    before: tuple[Mapping[str, Any], ...] = ()
    attack: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """For the record."""
        return asdict(self)

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> "Cell":
        """From a record; a setting that it does not name, being older, had its default."""
        train, run = (
            _build(TrainSpec, given["train"], "train"),
            _build(RowSpec, given["run"], "run"),
        )
        return _build(cls, dict(given) | {"train": train, "run": run}, "cell")


def names() -> list[str]:
    """Every experiment of the package."""
    files = resources.files("matcha_paper.experiments") / "paper"
    stems = (f.name.removesuffix(".toml") for f in files.iterdir() if f.name.endswith(".toml"))
    return sorted(stem for stem in stems if stem != "published")


def load(name: str) -> Experiment:
    """Read an experiment by name.

    Example:
        >>> experiment = load("table1")
        >>> len(experiment.columns), experiment.seeds
        (16, (0, 1, 2, 3, 4))
    """
    resolve("name", name, dict.fromkeys(names()))
    return parse(name, tomllib.loads(_text(f"{name}.toml")))


def parse(name: str, raw: Mapping[str, Any]) -> Experiment:
    """Turn a TOML document into an experiment."""
    rows = {
        row: _build(RowSpec, _with_base(given, raw["rows"], f"{name}: rows.{row}"), f"rows.{row}")
        for row, given in raw["rows"].items()
    }
    columns = {c: _build(ColumnSpec, given, f"columns.{c}") for c, given in raw["columns"].items()}
    for row, spec in rows.items():
        for column in spec.only:
            resolve(f"{name}: rows.{row}.only", column, columns)
    parts = {
        "name": name,
        "seeds": tuple(raw["seeds"]),
        "train": _build(TrainSpec, raw["train"], "train"),
        "columns": columns,
        "rows": rows,
    }
    return _build(Experiment, dict(raw) | parts, name)


def _with_base(
    given: Mapping[str, Any], rows: Mapping[str, Mapping[str, Any]], where: str
) -> dict[str, Any]:
    """A row with the method and the options of the row that it is based on, in every column."""
    if "base" not in given:
        return dict(given)
    for key in ("method", "method_options"):
        if key in given:
            raise InvalidArgumentError(f"{where}.{key}", given[key], "none: it is that of its base")
    base = resolve(f"{where}.base", given["base"], rows)
    own = {key: base[key] for key in ("method", "method_options") if key in base}
    only = {column: dict(settings) for column, settings in given.get("only", {}).items()}
    for column, settings in base.get("only", {}).items():
        only[column] = {"method_options": settings["method_options"]} | only.get(column, {})
    return own | dict(given) | {"only": only}


def groups(experiment: Experiment) -> dict[str, list[str]]:
    """The columns of each group, in the table's order; the first group has no name.

    Example:
        >>> [(name, len(columns)) for name, columns in groups(load("table1")).items()]
        [('', 8), ('five graphs', 8)]
    """
    found: dict[str, list[str]] = {"": []}
    for column, spec in experiment.columns.items():
        found.setdefault(spec.group, []).append(column)
    return found


def published(name: str) -> Mapping[str, Mapping[str, tuple[float, ...]]]:
    """The paper's mean and, where printed, standard deviation by row and column."""
    table: Mapping[str, Any] = _paper().get(name, {})
    return table


@cache
def _paper() -> Mapping[str, Any]:
    return tomllib.loads(_text("published.toml"))


def counted_over_all_nodes(name: str) -> set[tuple[str, str]]:
    """Rows and columns whose published number counts training nodes of the target too.

    Example:
        >>> sorted(counted_over_all_nodes("table2"))
        [('GTrans', 'syn-cora'), ('GTrans + Matcha', 'syn-cora')]
    """
    rows: Mapping[str, Any] = _paper()["all-nodes"].get(name, {})
    return {(row, column) for row, columns in rows.items() for column in columns}


def cells(experiment: Experiment, seeds: tuple[int, ...] | None = None) -> list[Cell]:
    """Every cell, those that share a source model side by side."""
    made = [
        _cell(experiment, column, row, seed)
        for column in experiment.columns
        for row in experiment.rows
        for seed in seeds or experiment.seeds
    ]
    return sorted(made, key=source_model)


def source_model(cell: Cell) -> tuple[str, int]:
    """What cells that share a source model have in common.

    What the model gives to methods (`ship`) leaves it as it is.
    """
    return repr((sorted(cell.source.items()), replace(cell.train, ship=()))), cell.seed


def _cell(experiment: Experiment, column: str, row: str, seed: int) -> Cell:
    graphs, run = experiment.columns[column], experiment.rows[row].at(column)
    targets = [_graph(experiment, c.target, 1000 + seed) for c in experiment.columns.values()]
    place = list(experiment.columns).index(column)
    return Cell(
        experiment=experiment.name,
        column=column,
        row=row,
        seed=seed,
        source=_graph(experiment, graphs.source, seed),
        target=targets[place],
        train=_build(TrainSpec, vars(experiment.train) | dict(graphs.train), column),
        run=run,
        before=tuple(targets[:place]) if run.stream else (),
        attack=graphs.attack,
    )


def quick(experiment: Experiment) -> Experiment:
    """The same on small graphs, with short training, few rounds and one seed: a look, no result.

    Columns of large data sets, further groups of columns, and rows of GraphPatcher, whose patcher
    trains for long, are left out. Other graphs are drawn where the published ones are large.

    Example:
        >>> list(quick(load("table2")).columns)
        ['syn-cora', 'syn-cora-r2', 'syn-cora-r3']
    """
    train = replace(experiment.train, epochs=60, ship=_fast(experiment.train.ship))
    columns = {
        name: small
        for name, column in experiment.columns.items()
        if (small := _small(experiment, column)) is not None
    }
    rows = {
        name: replace(row, epochs=min(row.epochs, 10), only={})
        for name, row in experiment.rows.items()
        if row.method not in SLOW
    }
    return replace(experiment, seeds=experiment.seeds[:1], train=train, columns=columns, rows=rows)


def _fast(methods: Iterable[str]) -> tuple[str, ...]:
    return tuple(name for name in methods if name not in SLOW)


def _small(experiment: Experiment, column: ColumnSpec) -> ColumnSpec | None:
    """The column with small graphs, or None where its data set has none."""
    source, target = (_drawn(experiment, graph) for graph in (column.source, column.target))
    kinds = [graph["generator"] for graph in (source, target)]
    if column.group or not set(kinds) <= set(SMALL):
        return None
    own = {"ship": _fast(column.train["ship"])} if "ship" in column.train else {}
    return replace(
        column,
        source=source | SMALL[kinds[0]],
        target=target | SMALL[kinds[1]],
        train=dict(column.train) | own,
        attack=dict(column.attack) | {"epochs": 5, "block_size": 20_000} if column.attack else {},
    )


def _drawn(experiment: Experiment, options: Mapping[str, Any]) -> dict[str, Any]:
    """A graph's options; for a published CSBM graph, those of `csbm` that draw others like it."""
    given = _options(experiment, options)
    if given["generator"] != RELEASED:
        return given
    noise = 2000**0.5
    return {
        "generator": "csbm",
        "degree": given["d"] / 2,
        "homophily": given["h"],
        "signal": 0.03 * noise,
        "shift": given.get("delta_mu", 0.0) * noise,
    }


def _options(experiment: Experiment, options: Mapping[str, Any]) -> dict[str, Any]:
    """What all graphs of a table share (`data`) is for its own generator alone."""
    return dict(options) if "generator" in options else dict(experiment.data) | dict(options)


def _graph(experiment: Experiment, options: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """A graph's options; where a generator draws it, each seed draws its own."""
    given = _options(experiment, options)
    return given | ({"seed": seed} if given["generator"] in DRAWN else {})


def _text(file: str) -> str:
    return (resources.files("matcha_paper.experiments") / "paper" / file).read_text("utf-8")


def _build(kind: type[T], given: Mapping[str, Any], where: str) -> T:
    known = {f.name for f in fields(kind)}  # type: ignore[arg-type]
    for key in given:
        if key not in known:
            raise InvalidArgumentError(f"{where}.{key}", "an unknown key", ", ".join(sorted(known)))
    try:
        return kind(**given)
    except TypeError as error:
        raise InvalidArgumentError(where, str(error), "all of its keys") from error
