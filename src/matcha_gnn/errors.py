"""Exceptions. Every one is a `MatchaError`; those about input are also a `ValueError`."""

import math
import operator
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from numbers import Real

EXTRAS = {
    "duckdb": "tables",
    "jinja2": "report",
    "matplotlib": "report",
    "pandas": "notebook",
    "pyarrow": "tables",
    "rich": "cli",
    "typer": "cli",
}
"""Packages that only some features need, by import name, and the extra that installs each."""


def printable(value: object) -> str:
    r"""A text that moves no cursor and breaks no line: other characters as Python writes them.

    Names come from files and folders of others; on a terminal they could colour, hide or overwrite.

    Example:
        >>> printable("red\x1b[31m\n")
        'red\\x1b[31m\\n'
    """
    text = str(value)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


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
        super().__init__(f"{printable(argument)}: got {printable(got)}; allowed: {allowed}")

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


LARGEST = 2**31 - 1
"""Of integers that count something: more would not end, or not fit anywhere."""


def require_whole(argument: str, value: object, *, least: int, most: int | None = None) -> None:
    """Refuse what is not an integer within bounds; True and False are none.

    Example:
        >>> require_whole("rounds", 2.5, least=1)
        Traceback (most recent call last):
        ...
        matcha_gnn.errors.InvalidArgumentError: rounds: got 2.5; allowed: an integer >= 1
    """
    whole = isinstance(value, int) and not isinstance(value, bool)
    limit = LARGEST if most is None else most
    if not whole or not least <= value <= limit:  # type: ignore[operator]
        shown = most is not None or (whole and value > limit)  # type: ignore[operator]
        allowed = f"from {least} to {limit}" if shown else f">= {least}"
        raise InvalidArgumentError(argument, repr(value), f"an integer {allowed}")


def require_number(
    argument: str,
    value: object,
    *,
    above: float | None = None,
    least: float | None = None,
    below: float | None = None,
    most: float | None = None,
) -> None:
    """Refuse what is not a finite number within bounds; True and False are no numbers.

    Example:
        >>> require_number("lr", -1, above=0)
        Traceback (most recent call last):
        ...
        matcha_gnn.errors.InvalidArgumentError: lr: got -1; allowed: a number > 0
    """
    bounds = {">": above, ">=": least, "<": below, "<=": most}
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not (number and math.isfinite(value)) or not all(  # type: ignore[arg-type]
        bound is None or _holds(float(value), sign, bound)  # type: ignore[arg-type]
        for sign, bound in bounds.items()
    ):
        limits = " and ".join(f"{s} {b:g}" for s, b in bounds.items() if b is not None)
        raise InvalidArgumentError(argument, repr(value), f"a number {limits}".rstrip())


def as_whole(argument: str, value: object, *, least: int | None = None, most: int = LARGEST) -> int:
    """Any kind of integer as Python's own, such as NumPy's; True and False are none.

    Example:
        >>> as_whole("K", True, least=0)
        Traceback (most recent call last):
        ...
        matcha_gnn.errors.InvalidArgumentError: K: got True; allowed: an integer >= 0
    """
    whole = None
    if not isinstance(value, bool):
        with suppress(TypeError):
            whole = operator.index(value)  # type: ignore[arg-type]
    if whole is not None and whole > most:
        raise InvalidArgumentError(argument, whole, f"an integer up to {most}")
    if whole is None or (least is not None and whole < least):
        got = value if isinstance(value, str | Real) else _short(value)
        raise InvalidArgumentError(
            argument, got, "an integer" if least is None else f"an integer >= {least}"
        )
    return whole


def as_number(
    argument: str,
    value: object,
    allowed: str = "a finite number",
    *,
    least: float = -math.inf,
    most: float = math.inf,
) -> float:
    """Any kind of finite number as Python's own, such as NumPy's; True and False are none.

    Example:
        >>> as_number("homophily", 2, "a share in [0, 1]", least=0, most=1)
        Traceback (most recent call last):
        ...
        matcha_gnn.errors.InvalidArgumentError: homophily: got 2; allowed: a share in [0, 1]
    """
    real = not isinstance(value, bool) and isinstance(value, Real)
    plain = float(value) if real else math.nan  # type: ignore[arg-type]
    if not (math.isfinite(plain) and least <= plain <= most):
        got = value if isinstance(value, Real) else _short(value)
        raise InvalidArgumentError(argument, got, allowed)
    return plain


def require_seed(seed: object) -> None:
    """Refuse what torch does not take as a random seed."""
    require_whole("seed", seed, least=0, most=2**63 - 1)


def require_flag(argument: str, value: object) -> None:
    """Refuse what is not True or False; "False" would count as true.

    Example:
        >>> require_flag("relu", "False")
        Traceback (most recent call last):
        ...
        matcha_gnn.errors.InvalidArgumentError: relu: got the str 'False'; allowed: True or False
    """
    require_kind(argument, value, bool, "True or False")


def require_default(argument: str, value: object, default: object, unless: str) -> None:
    """Refuse a value other than the default, where the argument has no effect.

    Example:
        >>> require_default("k", 2, 5, "a is set")
        Traceback (most recent call last):
        ...
        matcha_gnn.errors.InvalidArgumentError: k: got 2; allowed: 5 unless a is set
    """
    if value != default:
        raise InvalidArgumentError(argument, repr(value), f"{default!r} unless {unless}")


def _holds(value: float, sign: str, bound: float) -> bool:
    return {">": value > bound, ">=": value >= bound, "<": value < bound, "<=": value <= bound}[
        sign
    ]


def _short(value: object) -> str:
    kind = type(value).__name__
    return f"the str {value!r}" if isinstance(value, str) else f"a {kind}"


class InvalidGraphError(InvalidArgumentError):
    """A graph has a wrong shape, type or value."""


def require_one_graph(graph: object) -> None:
    """Refuse what holds other graphs or several, and say what to give instead.

    Example:
        >>> require_one_graph([])
        Traceback (most recent call last):
        ...
        matcha_gnn.errors.InvalidGraphError: graph: got a list; allowed: one Data: adapt to each \
graph, or join them with Batch.from_data_list(graphs)
    """
    several = "one Data: adapt to each graph, or join them with Batch.from_data_list(graphs)"
    instead = {
        "HeteroData": "one Data: data.to_homogeneous() makes it, with node_type and edge_type",
        "list": several,
        "tuple": several,
        "DataLoader": "the whole graph, such as loader.data, with the loader as loader=; or one "
        "graph of loader.dataset",
        "Dataset": "one graph of it, such as dataset[0]",
    }
    # By name: importing PyG takes seconds, and who has such an object has imported it.
    for kind in type(graph).__mro__:
        if kind.__name__ in instead:
            raise InvalidGraphError("graph", f"a {type(graph).__name__}", instead[kind.__name__])


class InvalidFileError(InvalidArgumentError):
    """A file is missing, unreadable, or not what its name promises."""


class IncompatibleError(MatchaError, ValueError):
    """Two valid things do not go together, such as Tent and a model without batch norm."""


class NoEvidenceError(MatchaError, ValueError):
    """Accuracy on a graph cannot be estimated; the message says why."""


class NotAdaptedWarning(UserWarning):
    """The model was returned unadapted; the message says why, and what to run."""


class NonFiniteError(IncompatibleError):
    """Predictions, or what they are made from, are not finite numbers on this graph."""


@contextmanager
def optional_imports(feature: str) -> Iterator[None]:
    """Name the extra to install where an import inside lacks an optional package.

    Args:
        feature: what needs the imports, as the caller wrote it.

    Raises:
        MatchaError: a package of `EXTRAS` is not installed.

    Example:
        >>> with optional_imports("frame"):
        ...     raise ModuleNotFoundError(name="pandas")
        Traceback (most recent call last):
        ...
        matcha_gnn.errors.MatchaError: frame: needs pandas, which is not installed; \
pip install 'matcha-gnn[notebook]'
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = next((part for part in (error.name or "").split(".") if part in EXTRAS), None)
        if package is None:
            raise
        install = f"pip install 'matcha-gnn[{EXTRAS[package]}]'"
        raise MatchaError(
            f"{feature}: needs {package}, which is not installed; {install}"
        ) from error
