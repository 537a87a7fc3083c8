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


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nan(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
