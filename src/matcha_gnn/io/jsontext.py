"""JSON that every reader takes: a number that does not exist is null."""

import json
import math
from pathlib import Path
from typing import Any

from matcha_gnn.io.files import replacing


def json_text(value: Any, indent: int | None = 2) -> str:
    """A value as a JSON document; NaN and infinities, which JSON does not have, become null.

    Example:
        >>> json_text({"loss": float("nan"), "rounds": 3}, indent=None)
        '{"loss": null, "rounds": 3}'
    """
    return json.dumps(_without_nan(value), indent=indent, allow_nan=False)


def write_json(path: str | Path, value: Any, indent: int = 2) -> None:
    """Write a value as a JSON file, whole or not at all.

    Example:
        >>> import tempfile
        >>> target = Path(tempfile.mkdtemp()) / "record.json"
        >>> write_json(target, {"rounds": 3})
        >>> json.loads(target.read_text())
        {'rounds': 3}
    """
    with replacing(path) as beside:
        beside.write_text(json_text(value, indent) + "\n")


def json_object(text: str) -> dict[str, Any]:
    """A JSON object from a file.

    Raises:
        ValueError: no JSON, no object, numbers that JSON does not have, or nested too deep.

    Example:
        >>> json_object('{"a": 1}')
        {'a': 1}
    """
    try:
        found = json.loads(text, parse_constant=_no_number)
    except RecursionError as error:
        raise ValueError("nested too deep") from error
    if not isinstance(found, dict):
        raise ValueError("no JSON object")
    return found


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number")


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nan(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
