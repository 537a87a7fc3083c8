"""Records whose algorithm has changed since they were made."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from matcha_gnn.paper.experiments import store
from matcha_gnn.paper.experiments.algorithms import PRESENT


@dataclass(frozen=True)
class Stale:
    """Seeds of one cell of a table that were recorded with another version than the present one.

    `version_recorded` is None where it is not known, `version_present` where the algorithm is no
    more.
    """

    name: str
    row: str
    column: str
    seeds: tuple[int, ...]
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
    seeds: dict[tuple[str, str, str, str, int | None], list[int]] = {}
    for name, records in tables.items():
        for (column, row, seed), record in records.items():
            algorithm, version = record["algorithm"]["name"], record["algorithm"]["version"]
            if version is None or version != PRESENT.get(algorithm):
                seeds.setdefault((name, row, column, algorithm, version), []).append(seed)
    return [
        Stale(name, row, column, tuple(of), algorithm, version, PRESENT.get(algorithm))
        for (name, row, column, algorithm, version), of in seeds.items()
    ]
