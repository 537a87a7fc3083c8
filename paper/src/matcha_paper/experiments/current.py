"""Whether a record is what its table would give now."""

import json

from matcha_gnn.errors import InvalidArgumentError
from matcha_paper.experiments.algorithms import PRESENT
from matcha_paper.experiments.records import Record
from matcha_paper.experiments.spec import Cell

SETTINGS, VERSION, MODEL, COMMIT = "settings", "version", "model", "commit"
"""Why a record is stale: its settings are not those of the table; its algorithm has another
version; its source model is not known, not the one of its neighbours, or of another commit; it was
made by another commit than the others, or by one with changes."""


def faults(record: Record, cell: Cell | None) -> tuple[str, ...]:
    """Why a record is not what its cell would give now, as far as it tells by itself.

    Args:
        record: of any age.
        cell: at its place in the table; None where there is none any more.
    """
    algorithm, model = record["algorithm"], record.get("model")
    wrong = {
        SETTINGS: cell is None or not _same_settings(record, cell),
        VERSION: algorithm["version"] != PRESENT.get(algorithm["name"], 0),
        MODEL: model is None or model["code"] != record["code"],
    }
    return tuple(why for why, found in wrong.items() if found)


def _same_settings(record: Record, cell: Cell) -> bool:
    try:
        found = Cell.from_dict(record["cell"])
    except InvalidArgumentError:  # a setting that is no more
        return False
    return _plain(found) == _plain(cell)


def _plain(cell: Cell) -> str:
    """As JSON has it, where a tuple is a list."""
    return json.dumps(cell.as_dict(), sort_keys=True)
