"""Change attributes of a network's modules for a while, and put everything back."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from torch import nn


class Patch(NamedTuple):
    """What an attribute of a module should be for a while."""

    module: nn.Module
    name: str
    value: Any


@contextmanager
def patched(patches: Iterable[Patch]) -> Iterator[None]:
    """Put the values in place, each seeing those before it, and take them out again.

    The instance's own dictionary is read before parameters, submodules and methods, so none of
    these is touched: they keep their order, and the caller's tensors their identity.

    Example:
        >>> layer = nn.Linear(2, 2)
        >>> with patched([Patch(layer, "forward", lambda x: "other")]):
        ...     layer(None)
        'other'
        >>> "forward" in vars(layer)
        False
    """
    done: list[tuple[dict[str, Any], str, bool, Any]] = []
    try:
        for module, name, value in patches:
            own = vars(module)
            done.append((own, name, name in own, own.get(name)))
            own[name] = value
        yield
    finally:
        for own, name, was_there, before in reversed(done):
            if was_there:
                own[name] = before
            else:
                own.pop(name, None)
