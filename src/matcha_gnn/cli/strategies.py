"""A strategy as Python text, read without running any of it."""

import ast
import inspect
from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from typing import Any

from matcha_gnn.errors import InvalidArgumentError
from matcha_gnn.gamma.losses import LOSSES
from matcha_gnn.gamma.methods import METHODS
from matcha_gnn.gamma.strategies import STRATEGIES
from matcha_gnn.registry import (
    LOSS_GROUP,
    METHOD_GROUP,
    STRATEGY_GROUP,
    build,
    resolve,
    resolve_installed,
)

OPTION = "--strategy"
KINDS: dict[str, Mapping[str, type]] = {
    STRATEGY_GROUP: STRATEGIES,
    METHOD_GROUP: METHODS,
    LOSS_GROUP: LOSSES,
}
"""Classes that a text may name, by the group of entry points that adds to them."""


def strategy_of(text: str) -> Any:
    """A strategy or a base method from a name or a call, such as "Matcha(T3A(k=100), rounds=50)".

    Names are those of `matcha_gnn.gamma` and of installed packages, as on the command line or as
    in Python; arguments are further calls and literals. Nothing is evaluated.

    Raises:
        InvalidArgumentError: a name that is not known, or anything but calls and literals.

    Example:
        >>> strategy_of("erm"), strategy_of("Matcha(T3A(k=20), rounds=50)").method.k
        (ERM(), 20)
    """
    try:
        node = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError) as error:
        raise _refused(text) from error
    made = _value(node, text) if isinstance(node, ast.Call | ast.Attribute | ast.Name) else None
    if not callable(getattr(made, "run", None)):
        allowed = "a strategy or a base method, such as matcha or t3a"
        raise InvalidArgumentError(OPTION, repr(text), allowed)
    return made


def _value(node: ast.expr, text: str) -> Any:
    if isinstance(node, ast.Name | ast.Attribute):
        return build(OPTION, _class(node, text), {})
    if isinstance(node, ast.Call):
        return _called(node, text)
    if isinstance(node, ast.Tuple | ast.List):
        return tuple(_value(each, text) for each in node.elts)
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError) as error:
        raise _refused(text) from error


def _called(node: ast.Call, text: str) -> Any:
    make = _class(node.func, text)
    if any(isinstance(each, ast.Starred) for each in node.args):
        raise _refused(text)
    given = [_value(each, text) for each in node.args]
    names = list(inspect.signature(make).parameters)
    if len(given) > len(names):
        raise InvalidArgumentError(OPTION, f"{len(given)} arguments", f"at most {len(names)}")
    options = dict(zip(names, given, strict=False))
    for keyword in node.keywords:
        if keyword.arg is None or keyword.arg in options:
            raise _refused(text)
        options[keyword.arg] = _value(keyword.value, text)
    return build(OPTION, make, options)


def _class(node: ast.expr, text: str) -> Callable[..., Any]:
    """The class of a name, or of one behind "mg."."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        node = ast.Name(node.attr) if node.value.id in ("mg", "matcha_gnn") else node
    if not isinstance(node, ast.Name):
        raise _refused(text)
    groups, names = dict[str, str](), dict[str, str]()
    for group, classes in KINDS.items():
        named = [(point.name, point.attr) for point in entry_points(group=group)]
        # Built-in names come last, as they cannot be taken.
        for name, kind in [*named, *((name, kind.__name__) for name, kind in classes.items())]:
            groups[name], names[kind] = group, name
    name = names.get(node.id, node.id)
    group = resolve(OPTION, name, groups)
    return resolve_installed(OPTION, name, KINDS[group], group)


def _refused(text: str) -> InvalidArgumentError:
    allowed = 'a name, or a call with literals, such as "Matcha(T3A(k=100), rounds=50)"'
    return InvalidArgumentError(OPTION, repr(text), allowed)
