"""What is published about a graph, and a check that a graph is the published one."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from matcha_gnn.errors import InvalidFileError

if TYPE_CHECKING:
    from torch_geometric.data import Data


@dataclass(frozen=True)
class Statistics:
    """What is published about a graph, in the publication's way of counting.

    Attributes:
        nodes: N.
        edges: half the columns of `edge_index`, rounded down, be the graph directed or not.
        features: F.
        classes: C.
        degree: columns of `edge_index` per node, to two decimals.
        homophily: mean over all nodes of the share of incoming edges that come from the own
            class, where a node without any counts as 0 (PyG's `homophily(…, method="node")`).
        tolerance: how far the homophily may be off; random draws are not the publication's.
    """

    nodes: int
    edges: int
    features: int
    classes: int
    degree: float
    homophily: float
    tolerance: float = 0.0005


def statistics(graph: "Data") -> Statistics:
    """Measure a graph the way `Statistics` counts.

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
    """Return the graph if it is what was published, else say what differs.

    Args:
        graph: a graph with labels.
        published: its statistics.
        name: of the data set and its part, for the message.
    """
    found = statistics(graph)
    for each in ("nodes", "edges", "features", "classes", "degree", "homophily"):
        got, wanted = getattr(found, each), getattr(published, each)
        allowed = published.tolerance if each == "homophily" else 0.0
        if abs(got - wanted) > allowed:
            raise InvalidFileError(f"{name}: {each}", got, f"{wanted}, as published")
    return graph
