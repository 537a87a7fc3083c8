"""Every graph by name, for the command line and for experiment files."""

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from matcha_gnn.errors import InvalidArgumentError
from matcha_gnn.registry import resolve_installed

if TYPE_CHECKING:
    from torch_geometric.data import Data

GROUP = "matcha_gnn.datasets"
"""Entry points of functions that make further graphs."""


def make_graph(name: str, **options: Any) -> "Data":
    """One graph by the name of its data set.

    Args:
        name: one of `known_graphs` or the name of an entry point, with hyphens or underscores.
        **options: arguments of the function that makes it.

    Raises:
        InvalidArgumentError: an unknown name, or an option that this data set does not have.

    Example:
        >>> make_graph("csbm", num_nodes=100, num_features=3).num_nodes
        100
    """
    make = _maker(name)
    known = list(inspect.signature(make).parameters)
    for option, value in options.items():
        if option not in known:
            allowed = ", ".join(known) or "none"
            raise InvalidArgumentError(option, value, f"an option of {name}: {allowed}")
    return make(**options)


def seeded(name: str) -> bool:
    """Whether making this graph draws anything at random.

    Example:
        >>> seeded("csbm"), seeded("cora")
        (True, False)
    """
    return "seed" in inspect.signature(_maker(name)).parameters


def _maker(name: str) -> Callable[..., "Data"]:
    return resolve_installed("NAME", name, known_graphs(), GROUP)


def known_graphs() -> dict[str, Callable[..., "Data"]]:
    """The functions of `matcha_gnn.datasets` that return a graph, by name.

    Example:
        >>> sorted(known_graphs())
        ['coauthor_cs', 'cora', 'csbm']
    """
    from matcha_gnn import datasets

    exports = (each for each in vars(datasets).values() if inspect.isfunction(each))
    return {
        make.__name__: make
        for make in exports
        if make is not make_graph and _named(make.__annotations__.get("return")) == "Data"
    }


def _named(annotation: object) -> object:
    """The name of a class, also where it is given as text."""
    return getattr(annotation, "__name__", annotation)
