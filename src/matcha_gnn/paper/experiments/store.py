"""One JSON file per cell: what was run, with what, on what, and what came out."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from matcha_gnn.errors import InvalidArgumentError, InvalidFileError
from matcha_gnn.io.files import replacing
from matcha_gnn.io.jsontext import json_text
from matcha_gnn.io.provenance import commit, hardware, source_tree, versions
from matcha_gnn.paper.experiments.spec import Cell

if TYPE_CHECKING:
    import torch


def default_folder() -> Path:
    """`results` here, or that of the source tree this package runs from."""
    here, project = Path("results"), source_tree()
    if here.is_dir() or project is None or not (project / "results").is_dir():
        return here
    return project / "results"


def path_of(cell: Cell, folder: Path) -> Path:
    """Where a cell's record lies."""
    row = re.sub(r"[^a-z0-9]+", "-", cell.row.lower()).strip("-")
    return folder / cell.experiment / cell.column / f"{row}.{cell.seed}.json"


def recorded(cell: Cell, folder: Path) -> bool:
    """Whether the record is there and is of this very cell, settings included."""
    path = path_of(cell, folder)
    if not path.is_file():
        return False
    record = read(path)
    try:
        found = Cell.from_dict(record["cell"])
    except InvalidArgumentError:  # a setting that is no more
        return False
    return _plain(found) == _plain(cell)


def _plain(cell: Cell) -> str:
    """As JSON has it, where a tuple is a list."""
    return json.dumps(cell.as_dict(), sort_keys=True)


def write(
    cell: Cell,
    numbers: Mapping[str, Any],
    seconds: Mapping[str, float],
    device: "torch.device",
    to: Path,
) -> None:
    """Write one record, whole or not at all."""
    path = path_of(cell, to)
    path.parent.mkdir(parents=True, exist_ok=True)
    record = {
        "cell": cell.as_dict(),
        "numbers": dict(numbers),
        "seconds": {stage: round(value, 6) for stage, value in seconds.items()},
        "versions": versions(),
        "code": commit(),
        "hardware": hardware(device),
    }
    with replacing(path) as beside:
        beside.write_text(json_text(record, indent=1) + "\n")


def read(path: Path) -> dict[str, Any]:
    """Read one record."""
    try:
        record: dict[str, Any] = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise InvalidFileError("results", f"{path} ({error})", "a record") from error
    return record
