"""What base methods, losses and strategies have in common: they are what their settings are."""

from collections.abc import Sequence
from typing import Any

from matcha_gnn.errors import InvalidArgumentError


def require_choice(argument: str, value: object, allowed: Sequence[str]) -> None:
    """Refuse a value that is not among the allowed ones."""
    if value not in allowed:
        raise InvalidArgumentError(argument, repr(value), ", ".join(allowed))


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
