"""Single graphs by the names that experiment files and studies know."""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

from matcha_gnn.datasets import csbm
from matcha_gnn.errors import InvalidArgumentError
from matcha_gnn.registry import build, resolve
from matcha_paper.datasets import (
    Domains,
    arxiv,
    arxiv_structure,
    coauthor_cs,
    cora,
    syn_coauthor_cs,
    syn_cora,
    syn_products,
    twitch,
)
from matcha_paper.datasets.domains import PARTS

if TYPE_CHECKING:
    from torch_geometric.data import Data


def one_graph(load: Callable[..., Domains]) -> Callable[..., "Data"]:
    """A function that makes one of the three graphs of a data set.

    It takes `part` (source, validation or target, the default) beside the options of the data set;
    `homophily`, where there is one to choose, is that part's.
    """
    signature = inspect.signature(load)
    chosen = "target" in signature.parameters

    @wraps(load)
    def make(part: str = "target", **options: Any) -> "Data":
        if part not in PARTS:
            raise InvalidArgumentError("part", repr(part), ", ".join(PARTS))
        if chosen and "homophily" in options:
            options[part] = options.pop("homophily")
        graph: Data = getattr(load(**options), part)
        return graph

    more = ["part", *(["homophily"] if chosen else [])]
    added = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in more]
    own = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in signature.parameters.values()]
    make.__signature__ = signature.replace(parameters=[*own, *added])  # type: ignore[attr-defined]
    return make


GRAPHS: dict[str, Callable[..., "Data"]] = {
    "arxiv": one_graph(arxiv),
    "arxiv_structure": one_graph(arxiv_structure),
    "coauthor_cs": coauthor_cs,
    "cora": cora,
    "csbm": csbm,
    "syn_coauthor_cs": one_graph(syn_coauthor_cs),
    "syn_cora": one_graph(syn_cora),
    "syn_products": one_graph(syn_products),
    "twitch": one_graph(twitch),
}


def make_graph(name: str, **options: Any) -> "Data":
    """One graph by the name of its data set.

    Args:
        name: one of `GRAPHS`, with hyphens or underscores.
        **options: arguments of the function that makes it.

    Raises:
        InvalidArgumentError: an unknown name, or an option that this data set does not have.

    Example:
        >>> make_graph("csbm", num_nodes=100, num_features=3).num_nodes
        100
    """
    return build(name, resolve("name", name, GRAPHS), options)
