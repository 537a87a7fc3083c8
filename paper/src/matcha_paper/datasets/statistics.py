"""Published statistics of a graph, and a check against them."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from matcha_gnn.errors import InvalidFileError

if TYPE_CHECKING:
    from torch_geometric.data import Data


@dataclass(frozen=True)
class Statistics:
    """Published statistics of a graph, counted as in the publication.

    Attributes:
        nodes: N.
        edges: half the columns of `edge_index`, rounded down, also for directed graphs.
        features: F.
        classes: C.
        degree: columns of `edge_index` per node, to two decimals.
        homophily: mean over all nodes of the share of incoming edges from the same class, where a
            node without any counts as 0 (PyG's `homophily(…, method="node")`).
        tolerance: largest difference of the homophily; random draws differ from the published.
    """

    nodes: int
    edges: int
    features: int
    classes: int
    degree: float
    homophily: float
    tolerance: float = 0.0005


def statistics(graph: "Data") -> Statistics:
    """Statistics of a graph.

    Example:
        >>> from matcha_gnn.datasets import csbm
        >>> statistics(csbm(num_nodes=100, num_features=3, degree=30, homophily=1.0)).homophily
        1.0
    """
    columns = graph.edge_index.shape[1]
    return Statistics(
        nodes=graph.num_nodes,
        edges=columns // 2,
        features=graph.num_features,
        classes=len(graph.y.unique()),
        degree=round(columns / graph.num_nodes, 2),
        homophily=_homophily_of_all_nodes(graph.edge_index, graph.y),
    )


def _homophily_of_all_nodes(edge_index: Tensor, labels: Tensor) -> float:
    sender, receiver = edge_index
    degree = torch.bincount(receiver, minlength=len(labels)).double()
    same = (labels[sender] == labels[receiver]).double()
    alike = torch.zeros_like(degree).index_add_(0, receiver, same)
    return float((alike / degree.clamp_min(1)).mean())


def checked(graph: "Data", published: Statistics, name: str) -> "Data":
    """Return the graph if it has the published statistics, else raise InvalidFileError.

    Args:
        graph: a graph with labels.
        published: its statistics.
        name: of the graph, for the message.
    """
    found = statistics(graph)
    for each in ("nodes", "edges", "features", "classes", "degree", "homophily"):
        got, wanted = getattr(found, each), getattr(published, each)
        allowed = published.tolerance if each == "homophily" else 0.0
        if abs(got - wanted) > allowed:
            raise InvalidFileError(f"{name}: {each}", got, f"{wanted}, as published")
    return graph
