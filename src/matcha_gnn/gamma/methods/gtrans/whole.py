"""GTrans on models of any form: each step runs the whole model on three views of the graph."""

import abc
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from matcha_gnn.gamma.kernels.edge_weights import EdgePattern, numbered_pairs, weighted_filter
from matcha_gnn.gamma.methods.base import View
from matcha_gnn.gamma.methods.gtrans.editing import Draw, Editor, Entries, contrast
from matcha_gnn.gamma.methods.gtrans.features import Adam, dense_copy, require_room
from matcha_gnn.gamma.methods.whole import MakeHops, run_with
from matcha_gnn.gamma.models import Backbone, LayeredBackbone, LinearBackbone
from matcha_gnn.graphs.memory import Graph
from matcha_gnn.kernels import Adjacency, one_hop
from matcha_gnn.typing import Repr

if TYPE_CHECKING:
    from matcha_gnn.gamma.methods.gtrans.method import GTrans


class WholeEditor(Editor):
    """Edits features and edges by the gradient of the whole model.

    Attributes:
        x: the features as edited so far, [N, F].
    """

    def __init__(self, method: "GTrans", view: View, entries: Entries) -> None:
        super().__init__(method, view, entries)
        self.x, self.adam = view.model.accept(view.graph.x), None
        if method.edits("features"):
            self.x = dense_copy(self.x, 3)
            self.adam = Adam(self.x, method.lr_feat)

    @abc.abstractmethod
    def run(self, model: Backbone, x: Tensor, p: Tensor, kept: Tensor | None) -> Repr:
        """Z of features on the graph with pairs removed by p; on some of the entries, if given."""

    def views(self, draw: Draw, p: Tensor) -> tuple[Tensor, Repr]:
        """From the features as they are."""
        return self._views(self.x, draw, p)

    def feature_step(self) -> None:
        """One Adam step on δ."""
        assert self.adam is not None
        x = self.x.requires_grad_()
        with torch.enable_grad():
            views = self._views(x, self.draw(), self.removal.detach())
        slope = self.descent(views, x, "features", contrast(*views, self.method.margin)[1])
        self.x = x.detach()
        for block, rows in enumerate(self.adam.rows):
            self.adam.move(block, self.x[rows], slope[rows])
        self.adam.steps += 1

    def _views(self, x: Tensor, draw: Draw, p: Tensor) -> tuple[Tensor, Repr]:
        both = [self._z(x, p, None), self._z(_shuffled(x, draw.order), p, None)]
        return torch.cat(both, dim=1), self._z(x, p, draw.kept)

    def _z(self, x: Tensor, p: Tensor, kept: Tensor | None) -> Repr:
        view = self.view
        return run_with(
            view.model, {"gamma": view.gamma}, lambda model: self.run(model, x, p, kept)
        )


class LayersEditor(WholeEditor):
    """For a `LayeredBackbone`, which defines how it uses a hop."""

    def __init__(self, method: "GTrans", view: View) -> None:
        graph, dtype = view.graph, view.gamma.dtype
        edges, weight = graph.edge_index, graph.edge_weight
        self.pattern = EdgePattern.of(edges, graph.num_nodes, weight, dtype)
        self.one_hop = torch.tensor([0.0, 1.0], dtype=dtype, device=view.gamma.device)
        super().__init__(method, view, Entries.of(self.pattern))

    def run(self, model: Backbone, x: Tensor, p: Tensor, kept: Tensor | None) -> Repr:
        """Hops by a product that is differentiable in the weights."""
        weight = self.weights(p) if kept is None else self.weights(p) * kept
        hop = partial(weighted_filter, self.pattern, weight, hop_weights=self.one_hop)
        layers = _layers(model, x, hop)
        return model.mixed(layers) if isinstance(model, LinearBackbone) else layers[0]

    def edited(self, removed: Tensor) -> MakeHops:
        """Layers over the remaining edges."""
        values, _ = self.pattern.normalise(self.weights(removed))
        adjacency, x = Adjacency(self.pattern.matrix(values)), self.x.detach()
        hop = partial(one_hop, adjacency)
        return lambda model: torch.stack(_layers(model, x, hop), 1)


class ForeignEditor(WholeEditor):
    """For networks that take a graph: edges are dropped from the list, and weighted by 1 − p.

    Parallel edges are kept apart, and no self loop is added.
    """

    def __init__(self, method: "GTrans", view: View) -> None:
        graph, (col, row) = view.graph, view.graph.edge_index
        given = graph.edge_weight
        ones = torch.ones(len(row), dtype=view.gamma.dtype, device=row.device)
        weight = ones if given is None else given.detach().to(view.gamma.dtype)
        pair, num_pairs = numbered_pairs(row, col, graph.num_nodes)
        super().__init__(method, view, Entries(row, col, weight, pair, num_pairs))
        self.is_weighted = given is not None

    def run(self, model: Backbone, x: Tensor, p: Tensor, kept: Tensor | None) -> Repr:
        """The network's forward pass."""
        weighted = self.is_weighted or self.method.edits("edges")
        return model.representation(self._graph(x, self.weights(p) if weighted else None, kept))

    def edited(self, removed: Tensor) -> MakeHops:
        """The network on the remaining edges."""
        weight, x = self.weights(removed), self.x.detach()
        graph = self._graph(x, weight if self.is_weighted else None, weight > 0)
        return lambda model: model.hops(graph, keyed=False).stack

    def _graph(self, x: Tensor, weight: Tensor | None, kept: Tensor | None) -> Graph:
        edges = torch.stack([self.entries.col, self.entries.row])
        graph = Graph(x, edges, weight, self.view.graph.extras)
        return graph if kept is None else graph.at_edges(kept)


def _layers(model: Backbone, x: Tensor, hop: Callable[[Tensor], Tensor]) -> list[Repr]:
    assert isinstance(model, LayeredBackbone), "GTrans.require lets no other model pass"
    return model.layers(x, hop)


def _shuffled(x: Tensor, order: Tensor) -> Tensor:
    """The rows of features in another order, dense."""
    if x.layout != torch.strided:
        require_room(x, 1)
        x = x.to_dense()
    return x.index_select(0, order)
