"""Small graphs and a small trained model to run checks on."""

import copy
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor

from matcha_gnn.datasets import csbm
from matcha_gnn.gamma.methods import BaseMethod
from matcha_gnn.gamma.models import GPRGNN, Backbone
from matcha_gnn.gamma.train import fit
from matcha_gnn.graphs.memory import GraphLike, unlabelled

if TYPE_CHECKING:
    from torch_geometric.data import Data

FEATURES = 6


def tiny_graph(homophily: float = 0.2, num_classes: int = 3, seed: int = 1) -> "Data":
    """A CSBM of 120 nodes with strong features.

    Example:
        >>> tiny_graph().num_nodes
        120
    """
    shares = [1 / num_classes] * num_classes
    return csbm(120, FEATURES, 4.0, homophily, signal=3.0, shares=shares, seed=seed)


@cache
def _trained(num_classes: int) -> GPRGNN:
    model = GPRGNN(FEATURES, num_classes, hidden_channels=8, K=3)
    fit(model, tiny_graph(0.8, num_classes, seed=0), epochs=60)
    return model


def trained_model(num_classes: int = 3, methods: Sequence[BaseMethod] = ()) -> Backbone:
    """A small GPRGNN trained on a homophilous `tiny_graph`; a fresh copy at each call.

    Args:
        num_classes: C.
        methods: base methods that need arrays of the source graph; they are stored in the model.
    """
    model, graph = copy.deepcopy(_trained(num_classes)), tiny_graph(0.8, num_classes, seed=0)
    source, everyone = unlabelled(graph), torch.ones(graph.num_nodes, dtype=torch.bool)
    model.source_arrays = {
        m.name: m.source_arrays(model, source, graph.y, everyone, seed=0) for m in methods
    }
    return model


def awkward_graphs() -> "dict[str, Data]":
    """Edge cases for methods: no edges, one and two nodes, a hub, equal features."""
    from torch_geometric.data import Data

    torch_seed = torch.Generator().manual_seed(0)

    def features(nodes: int) -> Tensor:
        return torch.randn(nodes, FEATURES, generator=torch_seed)

    none = torch.empty(2, 0, dtype=torch.long)
    spokes = torch.stack([torch.zeros(19, dtype=torch.long), torch.arange(1, 20)])
    return {
        "no edges": Data(x=features(30), edge_index=none),
        "one node": Data(x=features(1), edge_index=none),
        "two nodes": Data(x=features(2), edge_index=torch.tensor([[0, 1], [1, 0]])),
        "a hub": Data(x=features(20), edge_index=torch.cat([spokes, spokes.flip(0)], 1)),
        "equal features": Data(x=torch.ones(30, FEATURES), edge_index=none),
        "self loops only": Data(x=features(5), edge_index=torch.arange(5).repeat(2, 1)),
    }


def permuted(graph: "Data", order: Tensor) -> "Data":
    """The same graph with its nodes renumbered: new node i is old node order[i]."""
    from torch_geometric.data import Data

    place = torch.empty_like(order)
    place[order] = torch.arange(len(order))
    y = None if graph.y is None else graph.y[order]
    return Data(x=graph.x[order], edge_index=place[graph.edge_index], y=y)


def snapshot(model: Backbone, graph: GraphLike) -> list[Tensor]:
    """Copies of every tensor of a model and a graph, to compare later."""
    tensors = [*model.state_dict().values(), graph.x, graph.edge_index]
    y = getattr(graph, "y", None)
    return [cast(Tensor, t).detach().clone() for t in (*tensors, *([] if y is None else [y]))]
