"""What base methods, losses and strategies have in common: they are what their settings are."""

from collections.abc import Mapping, Sequence
from typing import Any

from matcha_gnn.errors import InvalidArgumentError


def require_choice(argument: str, value: object, allowed: Sequence[str]) -> None:
    """Refuse a value that is not among the allowed ones."""
    if value not in allowed:
        raise InvalidArgumentError(argument, repr(value), ", ".join(allowed))


def nested_parameters(own: Mapping[str, Any], deep: bool) -> dict[str, Any]:
    """Parameters by name, as scikit-learn's `get_params` has them.

    Args:
        own: constructor arguments.
        deep: with those of parts that have some, as "loss__min_share".
    """
    found = dict(own)
    for name, value in own.items() if deep else ():
        if hasattr(value, "get_params") and not isinstance(value, type):
            inner = value.get_params(deep=True)
            found |= {f"{name}__{each}": part for each, part in inner.items()}
    return found


class Configured:
    """Prints as the call that makes it; equal to another of its type with the same settings.

    Attributes whose names begin with an underscore are no settings: objects that have some are
    equal only where those are the same objects.

    Example:
        >>> from matcha_gnn.gamma.methods import T3A
        >>> T3A(k=20)
        T3A(k=20, scale='unit')
        >>> T3A(k=20) == T3A(k=20), T3A(k=20) == T3A(k=10)
        (True, False)
    """

    def settings(self) -> dict[str, Any]:
        """Constructor arguments, for the record."""
        return {key: value for key, value in vars(self).items() if not key.startswith("_")}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Constructor arguments by name, with those of parts if `deep`; as in scikit-learn.

        Example:
            >>> from matcha_gnn.gamma.losses import PIC
            >>> PIC().get_params()
            {'min_share': 1e-09}
        """
        return nested_parameters(self.settings(), deep)

    def __repr__(self) -> str:
        """The call that makes it."""
        given = ", ".join(f"{name}={value!r}" for name, value in self.settings().items())
        return f"{type(self).__name__}({given})"

    def __eq__(self, other: object) -> bool:
        """Whether type and settings are the same."""
        if type(other) is not type(self):
            return NotImplemented
        assert isinstance(other, Configured)
        return self._inner() == other._inner() and self.settings() == other.settings()

    def __hash__(self) -> int:
        """By type and settings."""
        return hash((type(self), self._inner(), tuple(self.settings().items())))

    def _inner(self) -> tuple[tuple[str, int], ...]:
        return tuple((name, id(value)) for name, value in vars(self).items() if name[0] == "_")
