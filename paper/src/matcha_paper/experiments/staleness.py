"""Records that their tables would not give now, and those that do not belong together."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from matcha_paper.experiments import store
from matcha_paper.experiments.algorithms import PRESENT
from matcha_paper.experiments.current import COMMIT, MODEL, faults
from matcha_paper.experiments.records import Place, Record
from matcha_paper.experiments.spec import Cell, cells, load, source_model


@dataclass(frozen=True)
class Stale:
    """Seeds of one cell of a table whose records are stale for the same reasons.

    `why` has the reasons, see `experiments.current`. `version_recorded` is None where it is not
    known, `version_present` where the algorithm is no more.
    """

    name: str
    row: str
    column: str
    seeds: tuple[int, ...]
    why: tuple[str, ...]
    algorithm: str
    version_recorded: int | None
    version_present: int | None

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def stale(names: Iterable[str], folder: Path) -> list[Stale]:
    """The stale records of tables, by table, column and row.

    Raises:
        InvalidFileError: none of the tables has a record, or a line is damaged.
    """
    tables = {name: store.read(name, folder) for name in names}
    if not any(tables.values()):
        raise store.nothing_recorded(tables, folder)
    places = {name: {(c.column, c.row, c.seed): c for c in cells(load(name))} for name in tables}
    usual = _usual(tables, places)
    seeds: dict[tuple[Any, ...], list[int]] = {}
    for name, records in tables.items():
        for place, record in records.items():
            cell = places[name].get(place)
            why = dict.fromkeys(faults(record, cell) + usual.faults(record, cell))
            algorithm = record["algorithm"]
            kind = tuple(why), algorithm["name"], algorithm["version"]
            if why:
                seeds.setdefault((name, *place[:2], kind), []).append(place[2])
    return [
        Stale(name, row, column, tuple(of), why, algorithm, version, PRESENT.get(algorithm))
        for (name, column, row, (why, algorithm, version)), of in seeds.items()
    ]


@dataclass(frozen=True)
class _Usual:
    """What most records have: one commit, and one hash for each source model."""

    commit: str | None
    models: dict[tuple[str, int], str]

    def faults(self, record: Record, cell: Cell | None) -> tuple[str, ...]:
        """Why a record does not belong to the others."""
        code, made = record["code"], record.get("model")
        wrong = []
        if made and cell and made["hash"] != self.models[source_model(cell)]:
            wrong.append(MODEL)
        if code is None or code != self.commit or code.endswith("-dirty"):
            wrong.append(COMMIT)
        return tuple(wrong)


def _usual(tables: dict[str, dict[Place, Record]], places: dict[str, dict[Place, Cell]]) -> _Usual:
    commits: Counter[str | None] = Counter()
    hashes: dict[tuple[str, int], Counter[str]] = {}
    for name, records in tables.items():
        for place, record in records.items():
            commits[record["code"]] += 1
            if place in places[name] and record.get("model"):
                key = source_model(places[name][place])
                hashes.setdefault(key, Counter())[record["model"]["hash"]] += 1
    models = {key: count.most_common(1)[0][0] for key, count in hashes.items()}
    return _Usual(commits.most_common(1)[0][0], models)
