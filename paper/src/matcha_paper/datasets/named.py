"""Single graphs of the paper's data sets, by the names that `matcha make-graph` knows."""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

from matcha_gnn.errors import InvalidArgumentError
from matcha_paper.datasets import (
    Domains,
    arxiv,
    arxiv_structure,
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


syn_cora_graph = one_graph(syn_cora)
syn_products_graph = one_graph(syn_products)
syn_coauthor_cs_graph = one_graph(syn_coauthor_cs)
twitch_graph = one_graph(twitch)
arxiv_graph = one_graph(arxiv)
arxiv_structure_graph = one_graph(arxiv_structure)
