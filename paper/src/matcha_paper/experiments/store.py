"""Records in one file per table, a line each: whole lines are added, the last of a cell counts."""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from matcha_gnn.errors import InvalidFileError
from matcha_gnn.io.files import replacing
from matcha_gnn.io.provenance import versions
from matcha_paper.experiments.algorithms import algorithm_of
from matcha_paper.experiments.current import faults
from matcha_paper.experiments.records import Place, Record, from_line, place_of, to_line
from matcha_paper.experiments.spec import Cell
from matcha_paper.locks import locked
from matcha_paper.provenance import commit, hardware, source_tree

if TYPE_CHECKING:
    import torch


def default_folder() -> Path:
    """`results` here, or that of the source tree this package runs from."""
    here, project = Path("results"), source_tree()
    if here.is_dir() or project is None or not (project / "results").is_dir():
        return here
    return project / "results"


def path_of(name: str, folder: Path) -> Path:
    """Where the records of a table lie."""
    return folder / f"{name}.jsonl"


def nothing_recorded(names: Iterable[str], folder: Path) -> InvalidFileError:
    """The error for tables without any record."""
    given = list(names)
    name = given[0] if len(given) == 1 else "NAME"
    wanted = f"records; make them with: matcha reproduce {name}"
    return InvalidFileError("results", f"{path_of(name, folder)} (nothing there)", wanted)


def read(name: str, folder: Path) -> dict[Place, Record]:
    """Every record of a table, sorted by column, row and seed; none where there is no file.

    Of several records of one cell the last counts. A last line without an end that is no record
    was cut off when its run was killed: it does not count.

    Raises:
        InvalidFileError: the file cannot be read, or a line of it is no record of this table.
    """
    path = path_of(name, folder)
    try:
        *lines, rest = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise InvalidFileError("results", f"{path} ({error.strerror})", "a file") from error
    found = [_parsed(line, name, path, number) for number, line in enumerate(lines, 1)]
    if _is_record(rest, name):
        found.append(from_line(rest, name))
    by_place = {place_of(record): record for record in found}
    return dict(sorted(by_place.items()))


def _parsed(line: bytes, name: str, path: Path, number: int) -> Record:
    try:
        return from_line(line, name)
    except ValueError as error:
        got = f"{path}, line {number} ({error})"
        raise InvalidFileError("results", got, f"a record of {name}") from error


def recorded(cells: Sequence[Cell], folder: Path) -> list[tuple[Cell, Record | None]]:
    """Every cell with the record at its place, current or stale; None where there is none."""
    tables = {name: read(name, folder) for name in {cell.experiment for cell in cells}}
    found = [tables[cell.experiment].get((cell.column, cell.row, cell.seed)) for cell in cells]
    return list(zip(cells, found, strict=True))


def missing(cells: Sequence[Cell], folder: Path) -> list[Cell]:
    """The cells that have no record, or a stale one."""
    return [
        cell for cell, record in recorded(cells, folder) if record is None or faults(record, cell)
    ]


def write(
    cell: Cell,
    numbers: Mapping[str, Any],
    seconds: Mapping[str, float],
    model: Mapping[str, Any],
    device: "torch.device",
    to: Path,
) -> None:
    """Add one record to the file of its table; it counts instead of an earlier one of the cell.

    Args:
        cell: what was run.
        numbers: what came out.
        seconds: of each stage.
        model: `SourceModel.made` of the source model.
        device: where it was adapted.
        to: the folder of records.
    """
    record = {
        "cell": cell.as_dict(),
        "algorithm": algorithm_of(cell.run),
        "numbers": dict(numbers),
        "seconds": {stage: round(value, 6) for stage, value in seconds.items()},
        "model": dict(model),
        "versions": versions(),
        "code": commit(),
        "hardware": hardware(device),
    }
    append(record, to)


def append(record: Record, folder: Path) -> None:
    """Add one line, after what a killed run left unfinished was taken away.

    Several processes may do so at once.
    """
    name = record["cell"]["experiment"]
    path = path_of(name, folder)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with locked(path), open(path, "ab") as file:
            _end_last_line(path, name)
            file.write(to_line(record))
    except OSError as error:
        allowed = "a file that can be written"
        raise InvalidFileError("results", f"{path} ({error.strerror})", allowed) from error


def _end_last_line(path: Path, name: str) -> None:
    """Make the file end with a line's end; what is no record after the last one is cut off."""
    with open(path, "r+b") as file:
        if file.seek(0, os.SEEK_END) == 0:
            return
        file.seek(-1, os.SEEK_END)
        if file.read(1) == b"\n":
            return
        file.seek(0)
        whole, _, rest = file.read().rpartition(b"\n")
        if _is_record(rest, name):
            file.write(b"\n")
        else:
            file.truncate(len(whole) + 1 if whole else 0)


def _is_record(line: bytes, name: str) -> bool:
    try:
        from_line(line, name)
    except ValueError:
        return False
    return True


def compact(name: str, folder: Path) -> None:
    """Keep one line per cell, sorted by column, row and seed."""
    path = path_of(name, folder)
    lines = _lines(name, folder)
    if not lines or lines == path.read_bytes():
        return
    with locked(path), replacing(path) as beside:
        beside.write_bytes(_lines(name, folder))


def _lines(name: str, folder: Path) -> bytes:
    return b"".join(map(to_line, read(name, folder).values()))
