"""Exceptions. Every one is a `MatchaError`; those about input are also a `ValueError`."""


class MatchaError(Exception):
    """Base of everything this package raises on purpose."""


class InvalidArgumentError(MatchaError, ValueError):
    """An argument has a value that is not allowed.

    Args:
        argument: name of the argument, as the caller wrote it.
        got: the value, or what is wrong with it, short enough for one line.
        allowed: what would have been accepted.

    Example:
        >>> print(InvalidArgumentError("epochs", -1, "an integer >= 0"))
        epochs: got -1; allowed: an integer >= 0
    """

    def __init__(self, argument: str, got: object, allowed: str) -> None:
        self.argument, self.got, self.allowed = argument, got, allowed
        super().__init__(f"{argument}: got {got}; allowed: {allowed}")

    def __reduce__(self) -> tuple[type, tuple[str, object, str]]:
        """Pickle by the three parts, so that the error survives a process boundary."""
        return type(self), (self.argument, self.got, self.allowed)


def require_kind(argument: str, value: object, kind: type, allowed: str) -> None:
    """Refuse what is not of a kind, in one line instead of a failing attribute.

    Example:
        >>> require_kind("method", "t3a", int, "an object such as mg.T3A()")
        Traceback (most recent call last):
        ...
        matcha_gnn.errors.InvalidArgumentError: method: got the str 't3a'; allowed: an object \
such as mg.T3A()
    """
    if isinstance(value, kind):
        return
    got = f"the class {value.__name__}" if isinstance(value, type) else _short(value)
    raise InvalidArgumentError(argument, got, allowed)


def _short(value: object) -> str:
    kind = type(value).__name__
    return f"the str {value!r}" if isinstance(value, str) else f"a {kind}"


class InvalidGraphError(InvalidArgumentError):
    """A graph has a wrong shape, type or value."""


class InvalidFileError(InvalidArgumentError):
    """A file is missing, unreadable, or not what its name promises."""


class IncompatibleError(MatchaError, ValueError):
    """Two valid things do not go together, such as Tent and a model without batch norm."""


class NonFiniteError(IncompatibleError):
    """Predictions, or what they are made from, are not finite numbers on this graph."""


class NotFittedError(MatchaError, ValueError):
    """Something needs a trained model, or what training ships with it, and it is not there."""


class DistributedError(MatchaError, RuntimeError):
    """The ranks of a cluster have lost each other, or one of them could not do its part."""
