"""From a name on the command line to a class. Python users pass objects instead."""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import TypeVar

from matcha_gnn.errors import InvalidArgumentError

T = TypeVar("T")


def resolve(argument: str, name: str, choices: Mapping[str, T]) -> T:
    """Look `name` up among `choices`; an unknown name lists what there is.

    Example:
        >>> resolve("method", "erm", {"erm": 1, "t3a": 2})
        1
        >>> resolve("method", "t3b", {"erm": 1, "t3a": 2})
        Traceback (most recent call last):
        ...
        matcha_gnn.errors.InvalidArgumentError: method: got 't3b' (did you mean t3a?); \
allowed: erm, t3a
    """
    for key in (name, name.lower().replace("-", "_")):
        if key in choices:
            return choices[key]
    near = get_close_matches(name, choices, n=1)
    hint = f" (did you mean {near[0]}?)" if near else ""
    raise InvalidArgumentError(argument, f"{name!r}{hint}", ", ".join(sorted(choices)))
