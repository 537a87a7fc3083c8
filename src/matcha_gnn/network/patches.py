"""Change attributes of a network's modules for a while, and put everything back."""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

from torch import nn


class Patch(NamedTuple):
    """What an attribute of a module should be for a while."""

    module: nn.Module
    name: str
    value: Any


def put(patches: Iterable[Patch]) -> ExitStack:
    """Put the values in place, each seeing those before it; closing what is returned undoes it.

    The instance's own dictionary is read before parameters, submodules and methods, so none of
    these is touched: they keep their order, and the caller's tensors their identity. Values stay
    in place if what is returned is thrown away.

    Example:
        >>> layer = nn.Linear(2, 2)
        >>> undo = put([Patch(layer, "forward", lambda x: "other")])
        >>> layer(None)
        'other'
        >>> undo.close()
        >>> "forward" in vars(layer)
        False
    """
    with ExitStack() as stack:
        for module, name, value in patches:
            own = vars(module)
            if name in own:
                stack.callback(own.__setitem__, name, own[name])
            else:
                stack.callback(own.pop, name, None)
            own[name] = value
        return stack.pop_all()


@contextmanager
def patched(patches: Iterable[Patch]) -> Iterator[None]:
    """The values are in place inside the block."""
    with put(patches):
        yield
