"""From a name to a class: on the command line, and where a call takes a name for an object."""

import inspect
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar

from matcha_gnn.errors import InvalidArgumentError

T = TypeVar("T")
METHOD_GROUP, STRATEGY_GROUP = "matcha_gnn.methods", "matcha_gnn.strategies"
LOSS_GROUP = "matcha_gnn.losses"
"""Entry points of what other packages bring."""


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


def resolve_installed(argument: str, name: str, builtin: Mapping[str, T], group: str) -> T:
    """Look `name` up among the built-in ones and what installed packages offer.

    A package offers a class by an entry point of the group; a built-in name cannot be taken. Only
    the class that is asked for is imported.

    Example:
        >>> resolve_installed("method", "erm", {"erm": 1}, "matcha_gnn.methods")
        1
    """
    found = resolve(argument, name, _choices(builtin, group))
    if not isinstance(found, EntryPoint):
        return found
    loaded: T = _loaded(argument, found)
    return loaded


def registered(exports: Mapping[str, object], base: Callable[..., T]) -> dict[str, type[T]]:
    """The classes of a kind among what a package exports, by their name.

    Bases are left out: they are abstract. A class without a `name` goes by its own in lower case.

    Example:
        >>> registered({"A": int, "b": 1}, int)
        {'int': <class 'int'>}
    """
    assert isinstance(base, type)
    kinds = (each for each in exports.values() if isinstance(each, type) and issubclass(each, base))
    found: dict[str, Any] = {}
    for kind in kinds:
        if not inspect.isabstract(kind):
            name = getattr(kind, "name", None)
            found[name if isinstance(name, str) else kind.__name__.lower()] = kind
    return found


def installed_names(builtin: Mapping[str, T], group: str) -> list[str]:
    """Every name that `resolve_installed` takes, sorted.

    Example:
        >>> installed_names({"t3a": 2, "erm": 1}, "matcha_gnn.no_such_group")
        ['erm', 't3a']
    """
    return sorted(_choices(builtin, group))


def name_of_class(kind: type, builtin: Mapping[str, object], group: str) -> str | None:
    """The name by which `resolve_installed` finds a class; None if there is none.

    Only classes of the same name are imported.

    Example:
        >>> name_of_class(int, {"whole": int}, "matcha_gnn.no_such_group")
        'whole'
    """
    for name, choice in _choices(builtin, group).items():
        if isinstance(choice, EntryPoint):
            if choice.attr != kind.__qualname__:
                continue
            choice = _loaded(group, choice)
        if choice is kind:
            return name
    return None


def _choices(builtin: Mapping[str, T], group: str) -> dict[str, T | EntryPoint]:
    offered = {point.name: point for point in entry_points(group=group)}
    return {**offered, **builtin}


def _loaded(argument: str, point: EntryPoint) -> Any:
    try:
        return point.load()
    # Whatever another package does on import is named, not shown as a fault of ours.
    except Exception as error:
        raise InvalidArgumentError(
            argument, f"{point.name!r} ({point.value} cannot be imported: {error})", "a class"
        ) from error


def build(argument: str, make: Callable[..., T], options: Mapping[str, Any]) -> T:
    """Call a constructor with options by name; an unknown one lists what it takes.

    Example:
        >>> build("--strategy", lambda k: k + 1, {"k": 1})
        2
    """
    known = inspect.signature(make).parameters
    for key in options:
        if key not in known:
            allowed = ", ".join(sorted(known)) or "nothing: it has no options"
            raise InvalidArgumentError(argument, repr(key), allowed)
    return make(**options)
