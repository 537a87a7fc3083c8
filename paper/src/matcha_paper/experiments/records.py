"""One record: a line of JSON that says what was run, with what, on what, and what came out."""

import json
import math
from typing import Any, NoReturn

from matcha_gnn.io.jsontext import json_text

Record = dict[str, Any]
Place = tuple[str, str, int]

_OBJECTS = ("cell", "algorithm", "numbers", "seconds", "versions")
_WORDS = ("status", "incompatible")


def to_line(record: Record) -> bytes:
    """The record as one line, its end included."""
    return (json_text(record, indent=None) + "\n").encode()


def from_line(line: bytes, experiment: str) -> Record:
    """Read one line.

    Args:
        line: with or without its end.
        experiment: the table that the record must be of.

    Raises:
        ValueError: the line is no record of this table; says why.
    """
    try:
        record = json.loads(line.decode(), parse_constant=_refuse)
    except json.JSONDecodeError as error:
        raise ValueError(f"{error.msg} at column {error.colno}") from error
    except RecursionError as error:
        raise ValueError("too deeply nested") from error
    _require(isinstance(record, dict), "not an object")
    for key in _OBJECTS:
        _require(isinstance(record.get(key), dict), f"{key} is not an object")
    _check_cell(record["cell"], experiment)
    _check_algorithm(record["algorithm"])
    _check_numbers(record["numbers"])
    _require(all(_is_number(value) for value in record["seconds"].values()), "bad seconds")
    _require(all(map(_is_text, record["versions"].values())), "bad versions")
    _require("code" in record and (record["code"] is None or _is_text(record["code"])), "bad code")
    _require(_is_text(record.get("hardware")), "bad hardware")
    _check_model(record.get("model"))
    return dict(record)


def place_of(record: Record) -> Place:
    """Column, row and seed."""
    cell = record["cell"]
    return cell["column"], cell["row"], cell["seed"]


def _check_cell(cell: Record, experiment: str) -> None:
    _require(cell.get("experiment") == experiment, "of another table")
    for key in ("column", "row"):
        _require(_is_text(cell.get(key)), f"bad {key}")
    _require(_is_integer(cell.get("seed")), "bad seed")
    for key in ("source", "target", "train", "run"):
        _require(isinstance(cell.get(key), dict), f"{key} is not an object")


def _check_algorithm(algorithm: Record) -> None:
    _require(_is_text(algorithm.get("name")), "bad name of the algorithm")
    version = algorithm.get("version", 0)
    good = version is None or (_is_integer(version) and version >= 1)
    _require(good, "bad version of the algorithm")
    _require(isinstance(algorithm.get("parameters"), dict), "parameters is not an object")


def _check_model(model: object) -> None:
    """Of the source model; records from before it was kept have none."""
    if model is None:
        return
    _require(isinstance(model, dict), "model is not an object")
    assert isinstance(model, dict)
    for key in ("hash", "hardware"):
        _require(_is_text(model.get(key)), f"bad {key} of the model")
    _require(model.get("code") is None or _is_text(model["code"]), "bad code of the model")


def _check_numbers(numbers: Record) -> None:
    _require("accuracy" in numbers, "no accuracy")
    for key, value in numbers.items():
        if key in _WORDS:
            good = isinstance(value, str)
        elif key == "gamma":
            good = isinstance(value, list) and all(v is None or _is_number(v) for v in value)
        elif key == "curve":
            good = isinstance(value, list) and all(_is_number(v) and 0 <= v <= 1 for v in value)
        else:
            good = value is None or (_is_number(value) and 0 <= value <= 1)
        _require(good, f"bad {key}" if key.isprintable() else "a bad number")


def _is_text(value: object) -> bool:
    """A string that can be printed: a lone surrogate cannot."""
    return isinstance(value, str) and value.isprintable()


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return _is_integer(value) or (isinstance(value, float) and math.isfinite(value))


def _require(good: bool, otherwise: str) -> None:
    if not good:
        raise ValueError(otherwise)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number of JSON")
