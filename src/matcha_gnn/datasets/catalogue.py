"""Every graph by name, for the command line and for experiment files."""

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from matcha_gnn.datasets.arxiv import arxiv, arxiv_structure
from matcha_gnn.datasets.citation import coauthor_cs, cora
from matcha_gnn.datasets.csbm import csbm
from matcha_gnn.datasets.domains import PARTS, Domains
from matcha_gnn.datasets.syn_cora import syn_cora
from matcha_gnn.datasets.syn_products import syn_coauthor_cs, syn_products
from matcha_gnn.datasets.twitch import twitch
from matcha_gnn.errors import InvalidArgumentError
from matcha_gnn.registry import resolve

if TYPE_CHECKING:
    from torch_geometric.data import Data

SINGLE: dict[str, Callable[..., "Data"]] = {
    "csbm": csbm,
    "cora": cora,
    "coauthor_cs": coauthor_cs,
}
SHIFTED: dict[str, Callable[..., Domains]] = {
    "syn_cora": syn_cora,
    "syn_products": syn_products,
    "syn_coauthor_cs": syn_coauthor_cs,
    "twitch": twitch,
    "arxiv": arxiv,
    "arxiv_structure": arxiv_structure,
}


def make_graph(name: str, **options: Any) -> "Data":
    """One graph by the name of its data set.

    Args:
        name: a key of `SINGLE` or `SHIFTED`, with hyphens or underscores.
        **options: arguments of the function that makes it. A data set of three graphs takes
            `part` (source, validation or target, the default) as well, and `homophily`, where it
            has one to choose, is that part's.

    Raises:
        InvalidArgumentError: an unknown name, or an option that this data set does not have.

    Example:
        >>> make_graph("csbm", num_nodes=100, num_features=3).num_nodes
        100
    """
    load = resolve("NAME", name, SINGLE | SHIFTED)
    if load in SINGLE.values():
        return _called(name, load, options)
    part = options.pop("part", "target")
    if part not in PARTS:
        raise InvalidArgumentError("part", repr(part), ", ".join(PARTS))
    if "homophily" in options and "target" in _known(load):
        options[part] = options.pop("homophily")
    graph: Data = getattr(_called(name, load, options, "part"), part)
    return graph


def seeded(name: str) -> bool:
    """Whether making this graph draws anything at random.

    Example:
        >>> seeded("csbm"), seeded("cora")
        (True, False)
    """
    return "seed" in _known(resolve("NAME", name, SINGLE | SHIFTED))


def _called(name: str, load: Callable[..., Any], options: dict[str, Any], *more: str) -> Any:
    known = _known(load)
    for option, value in options.items():
        if option not in known:
            allowed = ", ".join([*known, *more]) or "none"
            raise InvalidArgumentError(option, value, f"an option of {name}: {allowed}")
    return load(**options)


def _known(load: Callable[..., Any]) -> list[str]:
    return list(inspect.signature(load).parameters)
