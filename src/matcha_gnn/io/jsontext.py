"""JSON that every reader takes: a number that does not exist is null."""

import json
import math
from typing import Any


def json_text(value: Any, indent: int | None = 2) -> str:
    """A value as a JSON document; NaN and infinities, which JSON does not have, become null.

    Example:
        >>> json_text({"loss": float("nan"), "rounds": 3}, indent=None)
        '{"loss": null, "rounds": 3}'
    """
    return json.dumps(_without_nan(value), indent=indent, allow_nan=False)


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nan(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
