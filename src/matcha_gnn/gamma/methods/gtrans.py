"""GTrans (Jin et al., ICLR 2023): edit the target graph, not the model."""

import abc
import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from typing_extensions import override

from matcha_gnn.errors import (
    IncompatibleError,
    InvalidArgumentError,
    require_default,
    require_number,
    require_whole,
)
from matcha_gnn.gamma.kernels.adam import ADAM_EPSILON, BlockedAdam
from matcha_gnn.gamma.kernels.cosines import contrast
from matcha_gnn.gamma.kernels.edge_weights import (
    SMALLEST,
    EdgePattern,
    ListedEdges,
    WeightedGraph,
    project,
    weighted_filter,
)
from matcha_gnn.gamma.methods.base import BaseMethod, Modifies, Prediction, Prepared, State, View
from matcha_gnn.gamma.methods.settings import require_choice
from matcha_gnn.gamma.methods.whole import (
    MakeHops,
    ModifiedHops,
    Values,
    drifted_statistics,
    run_with,
    running_statistics,
)
from matcha_gnn.gamma.models import GPRGNN, Backbone, FilterBackbone
from matcha_gnn.gamma.networks.added import AddedHops
from matcha_gnn.gamma.networks.wrap import Foreign
from matcha_gnn.graphs.memory import Graph
from matcha_gnn.kernels import Adjacency, propagate
from matcha_gnn.kernels.propagate import empty
from matcha_gnn.network.calling import takes_edge_weight
from matcha_gnn.streams import Purpose, torch_stream
from matcha_gnn.typing import Repr

LOOPS = {"features": 4, "edges": 1}
"""Steps on each in a round, as in the released script."""
ONLY_FOR = {"lr_feat": "features", "lr_adj": "edges", "ratio": "edges"}
"""Arguments that count only where one kind of edit is made."""
DROP_RATE = 0.05
"""Share of directed edges that the dropped view lacks."""
SAMPLES = 5
"""Edge sets compared in the end, the top B among them."""
MAX_DENSE_BYTES = 8 << 30
"""Largest size of the dense copies of sparse features; larger ones are not edited."""


@dataclass(frozen=True)
class GTrans(BaseMethod):
    """Adds a learnt δ to the features and removes a budget of edges, then predicts.

    Both edits minimise a label-free loss: the representation Z should not change when some edges
    are dropped, and should change when the rows of the features are shuffled:
    L = d(Z_dropped, Z) − d(Z, Z_shuffled), with d the mean of 1 − cos over nodes.

    A round is four Adam steps on δ, then one step on p, the removal of each pair of joined nodes,
    which is projected onto {Σ p ≤ B, 0 < p < 1}. A step on p moves each entry `lr_adj` up or down:
    the released code uses a new Adam each time. In the end the B pairs of largest p, or a draw from
    p within the budget, are removed: the candidate of lowest loss.

    From "Empowering Graph Representation Learning with Test-Time Graph Transformation", with the
    defaults of its script. Deviations: δ starts at 0 instead of 1e-7, and pairs whose p was never
    raised are kept even if they are among the top B.

    Args:
        lr_feat: Adam's step size on δ.
        lr_adj: step size on p.
        epochs: steps in all, in full rounds; a remainder is left out.
        ratio: B as a share of the pairs of joined nodes.
        edit: "both", "features" or "edges"; a round has only the steps of what is edited, and
            arguments of the other steps are an error.
        refresh: "once" edits at the source γ, "each" again in every round of Matcha. An edit costs
            many inferences, and a round of Matcha much less than one.
        drift: passes over the target with the batch norm in training mode, before the edit: each
            moves the running statistics one momentum step towards the target's. The published
            runs seem to have had some; see paper/docs/methods/gtrans.md.

    Example:
        >>> import matcha_gnn as mg
        >>> graph = mg.datasets.csbm(num_nodes=100, num_features=8, seed=0)
        >>> result = mg.predict(mg.GPRGNN(8, 2), graph, GTrans(epochs=5))
        >>> result.probs.shape
        torch.Size([100, 2])
    """

    name = "gtrans"
    draws_at_random = True

    lr_feat: float = 1e-3
    lr_adj: float = 0.1
    epochs: int = 50
    ratio: float = 0.1
    edit: str = "both"
    refresh: str = "once"
    drift: int = 0

    def __post_init__(self) -> None:
        require_number("lr_feat", self.lr_feat, above=0)
        require_number("lr_adj", self.lr_adj, above=0)
        require_number("ratio", self.ratio, least=0, most=1)
        require_whole("drift", self.drift, least=0)
        require_choice("refresh", self.refresh, ("once", "each"))
        require_choice("edit", self.edit, ("both", *LOOPS))
        for name, what in ONLY_FOR.items():
            if self.edit not in ("both", what):
                unless = f"edit is both or {what}"
                require_default(name, getattr(self, name), getattr(GTrans, name), unless)
        require_whole("epochs", self.epochs, least=0)
        steps = sum(self.loops.values())
        if 0 < self.epochs < steps:
            allowed = f"0, or an integer >= {steps}, the steps of one round"
            raise InvalidArgumentError("epochs", repr(self.epochs), allowed)

    @property
    def loops(self) -> dict[str, int]:
        """How many steps of a round are on "features", and on "edges"."""
        return {what: steps for what, steps in LOOPS.items() if self.edit in ("both", what)}

    def edits(self, what: str) -> bool:
        """Whether there are steps on "features", or on "edges"."""
        return self.epochs > 0 and what in self.loops

    @property
    def modifies(self) -> frozenset[Modifies]:
        """Features and edges, and the norm where its statistics drift."""
        norm = [Modifies.NORM] if self.drift else []
        return frozenset({Modifies.FEATURES, Modifies.EDGES, *norm})

    @override
    def require(self, model: Backbone) -> None:
        if self.drift and not running_statistics(model):
            said = f"gtrans: {model.name} has no batch norm with statistics to drift"
            raise IncompatibleError(said)
        if isinstance(model, Foreign) and self.edits("edges"):
            instead = 'use edit="features"'
            if not takes_edge_weight(model.net):
                raise IncompatibleError(f"GTrans: {model.name} takes no edge weights; {instead}")
            if isinstance(model, AddedHops):
                raise IncompatibleError(f"GTrans: added hops have no gradient in edges; {instead}")

    def prepare(self, view: View) -> Prepared:
        """The edit at the source γ, unless every round edits again."""
        return self.edited(view) if self.refresh == "once" else None

    def predict(self, view: View, state: State) -> tuple[Prediction, State]:
        """The model's prediction on the edited graph; the state is the edit that stays."""
        edit: EditedGraph = state or self.edited(view)
        hops = edit.target.hops_at(view)
        probs, sums, mass = hops.classify(view.hop_weights, view.model.head)
        return Prediction(probs, hops, mass=mass, class_sums=(hops, sums)), state

    @torch.no_grad()
    def edited(self, view: View) -> "EditedGraph":
        """Edit the view's graph at its γ, always from the graph as it was given."""
        drifted = drifted_statistics(view, self.drift) if self.drift else {}
        return run_with(view.model, drifted, lambda _: self._edited(view, drifted))

    def _edited(self, view: View, drifted: Values) -> "EditedGraph":
        editor = editor_of(self, view)
        kinds = {"features": editor.feature_step, "edges": editor.edge_step}
        steps = [kinds[what] for what, number in self.loops.items() for _ in range(number)]
        for step in steps * (self.epochs // len(steps)):
            step()
        removed = editor.final_edges()
        return EditedGraph(ModifiedHops(view, editor.edited(removed), drifted), removed > 0)


class EditedGraph(NamedTuple):
    """The model's hops on edited features and edges, and which pairs were removed, bool [pairs]."""

    target: ModifiedHops
    removed: Tensor


def editor_of(method: GTrans, view: View) -> "GraphEditor":
    """The fastest editor for this model."""
    model = view.model
    fast = isinstance(model, GPRGNN) or not method.edits("features")
    if isinstance(model, FilterBackbone) and fast:
        return FilterEditor(method, view, model)
    return WholeEditor(method, view)


class Draw(NamedTuple):
    """Which entries the dropped view keeps (self loops always), [M], and a shuffle, [N]."""

    kept: Tensor
    order: Tensor


class GraphEditor(abc.ABC):
    """The variables of one edit of the view's graph at its γ, and the steps on them.

    Attributes:
        entries: the edges.
        edit: what a step on δ takes the gradient in: features [N, F], or H_0 of them, [N, D].
        removal: p of each pair, [pairs].
    """

    edit: Tensor

    def __init__(self, method: GTrans, view: View, entries: EdgePattern | ListedEdges) -> None:
        self.method, self.view, self.entries = method, view, entries
        self.draws = torch_stream(view.seed, Purpose.GTRANS_EDITS, entries.weight.device)
        self.removal = entries.weight.new_full((entries.num_pairs,), SMALLEST)
        self.budget = int(method.ratio * entries.num_pairs)

    @abc.abstractmethod
    def views(self, edit: Tensor, draw: Draw, p: Tensor) -> tuple[Tensor, Repr]:
        """Z clean and shuffled side by side [N, 2D], and dropped [N, D], differentiable."""

    @abc.abstractmethod
    def move(self, slope: Tensor) -> None:
        """One Adam step on δ, from the gradient in `edit`."""

    @abc.abstractmethod
    def edited(self, removed: Tensor) -> MakeHops:
        """The hops of a model on the edited graph; `removed` is 1 for a removed pair, else 0."""

    def feature_step(self) -> None:
        """One step on δ."""
        edit = self.edit.requires_grad_()
        self.move(self._slope(edit, self.removal.detach(), edit, "features"))

    def edge_step(self) -> None:
        """One step on p and the projection; nothing where the budget is less than one pair."""
        if not self.budget:
            return
        p = self.removal.requires_grad_()
        slope = self._slope(self.edit.detach(), p, p, "edges")
        # The first step of Adam.
        step = slope / (slope.abs() + ADAM_EPSILON)
        self.removal = project(p.detach() - self.method.lr_adj * step, self.budget)

    def _slope(self, edit: Tensor, p: Tensor, leaf: Tensor, what: str) -> Tensor:
        """The gradient of the loss in a leaf; IncompatibleError if there is none."""
        with torch.enable_grad():
            views = self.views(edit, self.draw(), p)
        learns, slopes = any(view.requires_grad for view in views), contrast(*views)[1]
        found = torch.autograd.grad(views, leaf, slopes, allow_unused=True) if learns else (None,)
        if found[0] is None:
            other = "edges" if what == "features" else "features"
            raise IncompatibleError(
                f"GTrans: the model's output has no gradient in the {what}; use edit={other!r}"
            )
        return found[0]

    def final_edges(self) -> Tensor:
        """The best of `SAMPLES` edge sets within the budget: 1 where a pair is removed, else 0."""
        p = torch.where(self.removal.detach() > SMALLEST, self.removal.detach(), 0)
        best, top, lowest = torch.zeros_like(p), torch.zeros_like(p), math.inf
        if not p.any():
            return best
        draw = self.draw()
        top[p.topk(self.budget).indices] = 1
        for sample in range(SAMPLES):
            drawn = torch.bernoulli(p, generator=self.draws) if sample else top * (p > 0)
            if drawn.sum() > self.budget:
                continue
            loss = float(contrast(*self.views(self.edit.detach(), draw, drawn))[0])
            if loss < lowest:
                best, lowest = drawn, loss
        return best

    def draw(self) -> Draw:
        """The random draws of one step."""
        row, nodes = self.entries.row, self.view.graph.num_nodes
        drawn = torch.rand(len(row), generator=self.draws, device=row.device)
        order = torch.randperm(nodes, generator=self.draws, device=row.device)
        return Draw((drawn >= DROP_RATE) | (row == self.entries.col), order)

    def weights(self, p: Tensor) -> Tensor:
        """Raw weights of all entries when each pair keeps 1 − p of its weight, [M]."""
        kept = torch.cat([1 - p, p.new_ones(1)])
        return self.entries.weight * kept.index_select(0, self.entries.pair)


class FilterEditor(GraphEditor):
    """For Σ_k c_k P^k H_0: all three views share H_0, and an edge step reads no features.

    The output U of a GPRGNN's first layer is kept instead of δ: a step adds Δ Wᵀ to it. Δ and its
    gradient exist for a block of rows at a time, and x, dense or sparse, is read once.
    """

    def __init__(self, method: GTrans, view: View, model: FilterBackbone) -> None:
        x = model.accept(view.graph.x)
        self.pattern = EdgePattern.of_graph(view.graph, x.dtype)
        super().__init__(method, view, self.pattern)
        if method.edits("features"):
            assert isinstance(model, GPRGNN), "others are edited as a whole"
            self.model, self.entered = model, model.linear(x)
            require_room(x, 2)
            self.adam = BlockedAdam(x, method.lr_feat)
            self.scratch = self.entered.new_empty(2, self.adam.size, x.shape[1])
            self.edit = self._encoded(self.entered)
        else:  # H_0 is the first hop, unless the norm has drifted
            self.edit = model.encode(x) if method.drift else view.hops.stack[:, 0].contiguous()

    @override
    def views(self, edit: Tensor, draw: Draw, p: Tensor) -> tuple[Tensor, Repr]:
        weight, hop_weights = self.weights(p), self.view.hop_weights
        both = torch.cat([edit, edit.index_select(0, draw.order)], dim=1)
        clean_and_shuffled = weighted_filter(self.pattern, weight, both, hop_weights)
        dropped = weighted_filter(self.pattern, weight * draw.kept, edit, hop_weights)
        return clean_and_shuffled, dropped

    @override
    def move(self, slope: Tensor) -> None:
        with torch.enable_grad():
            leaf = self.entered.requires_grad_()
            (inner,) = torch.autograd.grad(self._encoded(leaf), leaf, slope)
        self.entered, weight = leaf.detach(), self.model.linear.weight.detach()
        for rows in self.adam.blocks():
            gradient, change = self.scratch[:, : rows.stop - rows.start]
            torch.mm(inner[rows], weight, out=gradient)
            self.adam.move(rows, change.zero_(), gradient)
            self.entered[rows].addmm_(change, weight.T.contiguous())
        self.edit = self._encoded(self.entered)

    @override
    def edited(self, removed: Tensor) -> MakeHops:
        values, _ = self.pattern.normalise(self.weights(removed))
        adjacency, h = Adjacency(self.pattern.matrix(values)), self.edit.detach()
        return lambda model: propagate(adjacency, h, model.num_hops)

    def _encoded(self, entered: Tensor) -> Repr:
        return self.model.after_norm(self.model.norm(entered))


class WholeEditor(GraphEditor):
    """Edits features and edges by the gradient of the whole model.

    A network of others takes a list of edges: there they are dropped from it and weighted by 1 − p,
    parallel edges are kept apart, and no self loop is added.
    """

    def __init__(self, method: GTrans, view: View) -> None:
        graph, made = view.graph, ListedEdges if isinstance(view.model, Foreign) else EdgePattern
        super().__init__(method, view, made.of_graph(graph, view.gamma.dtype))
        self.edit = view.model.accept(graph.x)
        if method.edits("features"):
            require_room(self.edit, 3)
            self.edit = empty(self.edit.shape, self.edit).copy_(self.edit.to_dense())
            self.adam = BlockedAdam(self.edit, method.lr_feat)

    @override
    def views(self, edit: Tensor, draw: Draw, p: Tensor) -> tuple[Tensor, Repr]:
        require_room(edit, 1)
        weights = self.weights(p)
        clean = self._z(edit, weights)
        shuffled = self._z(edit.to_dense().index_select(0, draw.order), weights)
        return torch.cat([clean, shuffled], dim=1), self._z(edit, weights, draw.kept)

    @override
    def move(self, slope: Tensor) -> None:
        self.edit = self.edit.detach()
        for rows in self.adam.blocks():
            self.adam.move(rows, self.edit[rows], slope[rows])

    @override
    def edited(self, removed: Tensor) -> MakeHops:
        weights, weighted = self.weights(removed), self.view.graph.edge_weight is not None
        graph = self._graph(self.edit.detach(), weights, weights > 0, weighted)
        return lambda model: model.stack(graph)

    def _z(self, x: Tensor, weights: Tensor, kept: Tensor | None = None) -> Repr:
        weighted = self.view.graph.edge_weight is not None or self.method.edits("edges")
        graph, gamma = self._graph(x, weights, kept, weighted), {"gamma": self.view.gamma}
        return run_with(self.view.model, gamma, lambda model: model.representation(graph))

    def _graph(self, x: Tensor, weights: Tensor, kept: Tensor | None, weighted: bool) -> Graph:
        edges = torch.stack([self.entries.col, self.entries.row])
        if isinstance(self.entries, EdgePattern):
            learnt = weights if kept is None else weights * kept
            return WeightedGraph(x, edges, pattern=self.entries, learnt=learnt)
        graph = Graph(x, edges, weights if weighted else None, self.view.graph.extras)
        return graph if kept is None else graph.at_edges(kept)


def require_room(x: Tensor, copies: int) -> None:
    """Raise IncompatibleError for sparse features that are too large as so many dense copies."""
    needed = copies * x.shape[0] * x.shape[1] * x.element_size()
    if x.layout != torch.strided and needed > MAX_DENSE_BYTES:
        raise IncompatibleError(
            f"GTrans needs dense features to edit them, {needed / 1e9:.0f} GB for this graph; "
            'use edit="edges"'
        )
