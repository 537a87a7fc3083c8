"""GTrans' variables, the steps on them and its loss; for filters, and for models of any form."""

import abc
import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.optim.adam import adam
from typing_extensions import override

from matcha_gnn.errors import IncompatibleError
from matcha_gnn.gamma.kernels.edge_weights import EdgePattern, numbered_pairs, weighted_filter
from matcha_gnn.gamma.methods.base import View
from matcha_gnn.gamma.methods.whole import MakeHops, run_with
from matcha_gnn.gamma.models import Backbone, FilterBackbone, LayeredBackbone, LinearBackbone
from matcha_gnn.gamma.models.gprgnn import NormedEncoder
from matcha_gnn.graphs.memory import Graph
from matcha_gnn.kernels import Adjacency, one_hop, propagate
from matcha_gnn.streams import Purpose, torch_stream
from matcha_gnn.typing import Repr

if TYPE_CHECKING:
    from matcha_gnn.gamma.methods.gtrans import GTrans

DROP_RATE = 0.05
"""Share of directed edges that the dropped view lacks."""
SAMPLES = 5
"""Edge sets compared in the end, the top B among them."""
SMALLEST = 1e-7
"""Edge variables stay this far from 0 and 1, so that no weight and no degree becomes 0."""
ADAM_EPSILON = 1e-8
BLOCK_ENTRIES = 1 << 19
"""Features are edited in blocks of rows of this size, in cache from gradient to product."""
MAX_DENSE_BYTES = 8 << 30
"""Largest size of the dense copies of sparse features; larger ones are not edited."""


class Draw(NamedTuple):
    """Which entries the dropped view keeps (self loops always), [M], and a shuffle, [N]."""

    kept: Tensor
    order: Tensor


class Entries(NamedTuple):
    """The edges of a graph, named as those of an `EdgePattern`."""

    row: Tensor
    col: Tensor
    weight: Tensor
    pair: Tensor
    num_pairs: int


class GraphEditor(abc.ABC):
    """The variables of one edit of the view's graph at its γ, and the steps on them.

    Attributes:
        removal: p of each pair, [pairs].
    """

    def __init__(self, method: "GTrans", view: View, entries: Entries | EdgePattern) -> None:
        self.method, self.view, self.entries = method, view, entries
        self.draws = torch_stream(view.seed, Purpose.GTRANS_EDITS, entries.weight.device)
        self.removal = entries.weight.new_full((entries.num_pairs,), SMALLEST)
        self.budget = int(method.ratio * entries.num_pairs)

    @abc.abstractmethod
    def views(self, draw: Draw, p: Tensor) -> tuple[Tensor, Repr]:
        """Z clean and shuffled side by side [N, 2D], and dropped [N, D], differentiable in p."""

    @abc.abstractmethod
    def feature_step(self) -> None:
        """One Adam step on δ."""

    @abc.abstractmethod
    def edited(self, removed: Tensor) -> MakeHops:
        """The hops of a model on the edited graph; `removed` is 1 for a removed pair, else 0."""

    def edge_step(self) -> None:
        """One step on p and the projection; nothing where the budget is less than one pair."""
        if not self.budget:
            return
        p = self.removal.requires_grad_()
        with torch.enable_grad():
            views = self.views(self.draw(), p)
        slope = self.descent(views, p, "edges", contrast(*views)[1])
        # The first step of Adam.
        step = slope / (slope.abs() + ADAM_EPSILON)
        self.removal = project(p.detach() - self.method.lr_adj * step, self.budget)

    def descent(
        self, views: tuple[Tensor, ...], leaf: Tensor, what: str, slopes: tuple[Tensor, ...]
    ) -> Tensor:
        """The gradient in a leaf, "features" or "edges"; IncompatibleError if there is none."""
        gradient = None
        if any(view.requires_grad for view in views):
            (gradient,) = torch.autograd.grad(views, leaf, slopes, allow_unused=True)
        if gradient is None:
            other = "edges" if what == "features" else "features"
            raise IncompatibleError(
                f"GTrans: the model's output has no gradient in the {what}; use edit={other!r}"
            )
        return gradient

    def final_edges(self) -> Tensor:
        """The best of `SAMPLES` edge sets within the budget: 1 where a pair is removed, else 0."""
        p = self.removal.detach()
        p = torch.where(p > SMALLEST, p, 0)
        best, lowest = torch.zeros_like(p), math.inf
        if not p.any():
            return best
        draw = self.draw()
        for sample in range(SAMPLES):
            drawn = torch.bernoulli(p, generator=self.draws) if sample else _top(p, self.budget)
            if drawn.sum() > self.budget:
                continue
            loss = float(contrast(*self.views(draw, drawn))[0])
            if loss < lowest:
                best, lowest = drawn, loss
        return best

    def draw(self) -> Draw:
        """The random draws of one step."""
        row, col, device = self.entries.row, self.entries.col, self.entries.row.device
        drawn = torch.rand(len(row), generator=self.draws, device=device)
        nodes = self.view.graph.num_nodes
        order = torch.randperm(nodes, generator=self.draws, device=device)
        return Draw((drawn >= DROP_RATE) | (row == col), order)

    def weights(self, p: Tensor) -> Tensor:
        """Raw weights of all entries when each pair keeps 1 − p of its weight, [M]."""
        kept = torch.cat([1 - p, p.new_ones(1)])
        return self.entries.weight * kept.index_select(0, self.entries.pair)


class FilterEditor(GraphEditor):
    """For Σ_k c_k P^k H_0: all three views share H_0, and an edge step reads no features.

    Attributes:
        h: H_0 of the features as edited so far, [N, D].
    """

    def __init__(self, method: "GTrans", view: View, model: FilterBackbone) -> None:
        graph, x = view.graph, model.accept(view.graph.x)
        self.pattern = EdgePattern.of(graph.edge_index, graph.num_nodes, graph.edge_weight, x.dtype)
        super().__init__(method, view, self.pattern)
        self.hop_weights, self.features = view.hop_weights, None
        if method.edits("features"):
            assert isinstance(model, NormedEncoder), "others are edited as a whole"
            self.features = Features(model, x, method.lr_feat)
            self.h = self.features.h
        # H_0 from the hops, unless the norm has drifted.
        elif method.drift:
            self.h = model.encode(x)
        else:
            self.h = view.hops.stack[:, 0].contiguous()

    @override
    def views(self, draw: Draw, p: Tensor) -> tuple[Tensor, Repr]:
        return self._views(self._pair(draw.order), self.h.detach(), draw, p)

    @override
    def feature_step(self) -> None:
        assert self.features is not None
        draw = self.draw()
        both, h = self._pair(draw.order).requires_grad_(), self.h.requires_grad_()
        with torch.enable_grad():
            views = self._views(both, h, draw, self.removal.detach())
        of_both, of_dropped = torch.autograd.grad(views, (both, h), contrast(*views)[1])
        of_clean, of_shuffled = of_both.chunk(2, dim=1)
        back = torch.empty_like(draw.order)
        back[draw.order] = torch.arange(len(back), device=back.device)
        self.features.step(of_dropped.add_(of_clean).add_(of_shuffled.index_select(0, back)))
        self.h = self.features.h

    @override
    def edited(self, removed: Tensor) -> MakeHops:
        values, _ = self.pattern.normalise(self.weights(removed))
        adjacency, h = Adjacency(self.pattern.matrix(values)), self.h.detach()
        return lambda model: propagate(adjacency, h, model.num_hops)

    def _pair(self, order: Tensor) -> Tensor:
        """H_0 and its shuffled rows side by side, [N, 2D]: they are propagated together."""
        h = self.h.detach()
        return torch.cat([h, h.index_select(0, order)], dim=1)

    def _views(self, both: Tensor, h: Repr, draw: Draw, p: Tensor) -> tuple[Tensor, Repr]:
        weight = self.weights(p)
        clean_and_shuffled = weighted_filter(self.pattern, weight, both, self.hop_weights)
        dropped = weighted_filter(self.pattern, weight * draw.kept, h, self.hop_weights)
        return clean_and_shuffled, dropped


class WholeEditor(GraphEditor):
    """Edits features and edges by the gradient of the whole model.

    Attributes:
        x: the features as edited so far, [N, F].
    """

    def __init__(self, method: "GTrans", view: View, entries: Entries | EdgePattern) -> None:
        super().__init__(method, view, entries)
        self.x, self.adam = view.model.accept(view.graph.x), None
        if method.edits("features"):
            require_room(self.x, 3)
            edited = _zeros_like(self.x)
            self.x = edited.copy_(_dense(self.x))
            self.adam = Adam(self.x, method.lr_feat)

    @abc.abstractmethod
    def run(self, model: Backbone, x: Tensor, p: Tensor, kept: Tensor | None) -> Repr:
        """Z of features on the graph with pairs removed by p; on some of the entries, if given."""

    @override
    def views(self, draw: Draw, p: Tensor) -> tuple[Tensor, Repr]:
        return self._views(self.x, draw, p)

    @override
    def feature_step(self) -> None:
        assert self.adam is not None
        x = self.x.requires_grad_()
        with torch.enable_grad():
            views = self._views(x, self.draw(), self.removal.detach())
        slope = self.descent(views, x, "features", contrast(*views)[1])
        self.x = x.detach()
        for block, rows in enumerate(self.adam.rows):
            self.adam.move(block, self.x[rows], slope[rows])
        self.adam.steps += 1

    def _views(self, x: Tensor, draw: Draw, p: Tensor) -> tuple[Tensor, Repr]:
        require_room(x, 1)
        clean = self._z(x, p, None)
        shuffled = self._z(_dense(x).index_select(0, draw.order), p, None)
        return torch.cat([clean, shuffled], dim=1), self._z(x, p, draw.kept)

    def _z(self, x: Tensor, p: Tensor, kept: Tensor | None) -> Repr:
        gamma = {"gamma": self.view.gamma}
        return run_with(self.view.model, gamma, lambda model: self.run(model, x, p, kept))


class LayersEditor(WholeEditor):
    """For a `LayeredBackbone`, which defines how it uses a hop."""

    def __init__(self, method: "GTrans", view: View) -> None:
        graph, dtype = view.graph, view.gamma.dtype
        self.pattern = EdgePattern.of(graph.edge_index, graph.num_nodes, graph.edge_weight, dtype)
        self.one_hop = torch.tensor([0.0, 1.0], dtype=dtype, device=view.gamma.device)
        super().__init__(method, view, self.pattern)

    def run(self, model: Backbone, x: Tensor, p: Tensor, kept: Tensor | None) -> Repr:
        """Hops by a product that is differentiable in the weights."""
        weight = self.weights(p) if kept is None else self.weights(p) * kept
        hop = partial(weighted_filter, self.pattern, weight, hop_weights=self.one_hop)
        layers = _layers(model, x, hop)
        return model.mixed(layers) if isinstance(model, LinearBackbone) else layers[0]

    @override
    def edited(self, removed: Tensor) -> MakeHops:
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
        ones = torch.ones(len(row), dtype=view.gamma.dtype, device=row.device)
        self.is_weighted = graph.edge_weight is not None
        weight = ones if graph.edge_weight is None else graph.edge_weight.detach().to(ones.dtype)
        pair, num_pairs = numbered_pairs(row, col, graph.num_nodes)
        super().__init__(method, view, Entries(row, col, weight, pair, num_pairs))

    @override
    def run(self, model: Backbone, x: Tensor, p: Tensor, kept: Tensor | None) -> Repr:
        weighted = self.is_weighted or self.method.edits("edges")
        return model.representation(self._graph(x, self.weights(p) if weighted else None, kept))

    @override
    def edited(self, removed: Tensor) -> MakeHops:
        weight, x = self.weights(removed), self.x.detach()
        graph = self._graph(x, weight if self.is_weighted else None, weight > 0)
        return lambda model: model.hops(graph, keyed=False).stack

    def _graph(self, x: Tensor, weight: Tensor | None, kept: Tensor | None) -> Graph:
        edges = torch.stack([self.entries.col, self.entries.row])
        graph = Graph(x, edges, weight, self.view.graph.extras)
        return graph if kept is None else graph.at_edges(kept)


class Features:
    """H_0 of edited features: the output of the first linear layer is kept instead of δ.

    The rest of the encoder depends only on the layer's output U, and a step adds Δ Wᵀ to it. Δ and
    its gradient exist for a block of rows at a time, and x, dense or sparse, is read once.

    Attributes:
        h: as edited so far, detached, [N, D].
    """

    def __init__(self, model: NormedEncoder, x: Tensor, lr: float) -> None:
        self.model, self.weight = model, model.linear.weight.detach()
        self.weight_t = self.weight.T.contiguous()
        self.entered = model.before_norm(x)
        require_room(x, 2)
        self.adam = Adam(x, lr)
        rows = max(block.stop - block.start for block in self.adam.rows)
        self._scratch = self.entered.new_empty(2, rows, x.shape[1])
        self.h = self._encode(self.entered)

    def step(self, slope: Tensor) -> None:
        """One step on δ down the gradient that has this slope in H_0, [N, D]."""
        with torch.enable_grad():
            leaf = self.entered.requires_grad_()
            (inner,) = torch.autograd.grad(self._encode(leaf), leaf, slope)
        entered = self.entered = leaf.detach()
        for block, rows in enumerate(self.adam.rows):
            gradient, change = self._scratch[:, : rows.stop - rows.start]
            torch.mm(inner[rows], self.weight, out=gradient)
            self.adam.move(block, change.zero_(), gradient)
            entered[rows].addmm_(change, self.weight_t)
        self.adam.steps += 1
        self.h = self._encode(entered)

    def _encode(self, entered: Tensor) -> Repr:
        return self.model.after_norm(self.model.norm(entered))


class Adam:
    """Adam's two moments for numbers [N, F], in blocks of rows: twice the memory of the numbers."""

    def __init__(self, like: Tensor, lr: float) -> None:
        self.lr, self.steps = lr, 0
        size = max(1, BLOCK_ENTRIES // like.shape[1])
        moments = (torch.split(_zeros_like(like), size) for _ in range(2))
        self.moments = list(zip(*moments, strict=True))
        ends = np.cumsum([0, *(len(mean) for mean, _ in self.moments)]).tolist()
        self.rows = [slice(a, b) for a, b in zip(ends, ends[1:], strict=False)]

    def move(self, block: int, values: Tensor, gradient: Tensor) -> None:
        """Take a block of the values one step down, in place."""
        # The function under `torch.optim.Adam`: it works on the buffers given, in one pass.
        mean, square = self.moments[block]
        steps = torch.full((), float(self.steps), device=values.device)
        rates: dict[str, Any] = {"lr": self.lr, "beta1": 0.9, "beta2": 0.999, "eps": ADAM_EPSILON}
        off: dict[str, Any] = {"amsgrad": False, "weight_decay": 0.0, "maximize": False}
        adam([values], [gradient], [mean], [square], [], [steps], fused=True, **rates, **off)


@torch.no_grad()
def contrast(clean_and_shuffled: Tensor, dropped: Repr) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """d(dropped, clean) − d(clean, shuffled), d the mean over nodes of 1 − cos, and its slopes.

    A row of zeros has no direction: its cosine counts as 0 and has no slope. Clean and shuffled
    representations lie side by side, [N, 2D].
    """
    clean, shuffled = clean_and_shuffled.chunk(2, dim=1)
    per_c, per_s, per_d = map(_per_length, (clean, shuffled, dropped))
    with_d, with_s = per_c * per_d, per_c * per_s
    same, other = _dots(clean, dropped) * with_d, _dots(clean, shuffled) * with_s
    value = (1 - same).mean() - (1 - other).mean()
    # The derivative of cos(u, v) in u is the part of v/|v| orthogonal to u, over |u|: a sum of the
    # two with one factor for each node, so that no unit vector is stored.
    share = 1 / len(clean)
    with_s, with_d, other = share * with_s, share * with_d, share * other
    of_both = torch.empty_like(clean_and_shuffled)
    of_clean, of_shuffled = of_both.chunk(2, dim=1)
    torch.mul(clean, per_c * per_c * (share * same - other), out=of_clean)
    of_clean.addcmul_(shuffled, with_s).addcmul_(dropped, with_d, value=-1)
    torch.mul(clean, with_s, out=of_shuffled)
    of_shuffled.addcmul_(shuffled, per_s * per_s * other, value=-1)
    of_dropped = (dropped * (share * per_d * per_d * same)).addcmul_(clean, with_d, value=-1)
    return value, (of_both, of_dropped)


def project(p: Tensor, budget: float) -> Tensor:
    """The point nearest to p with entries inside (0, 1) whose sum is at most the budget.

    It is p − μ clipped to the interval, with the smallest μ ≥ 0 within the budget, by bisection.
    """

    def cut(shift: float) -> Tensor:
        return (p - shift).clamp(SMALLEST, 1 - SMALLEST)

    if float(cut(0.0).double().sum()) <= budget:
        return cut(0.0)
    low, high = 0.0, float(p.max())
    # Halved until the two ends are adjacent numbers in the precision of p.
    for _ in range(2 - int(math.log2(torch.finfo(p.dtype).eps))):
        middle = (low + high) / 2
        over = float(cut(middle).double().sum()) > budget
        low, high = (middle, high) if over else (low, middle)
    return cut(high)


def require_room(x: Tensor, copies: int) -> None:
    """Raise IncompatibleError for sparse features that are too large as so many dense copies."""
    needed = copies * x.shape[0] * x.shape[1] * x.element_size()
    if x.layout != torch.strided and needed > MAX_DENSE_BYTES:
        raise IncompatibleError(
            f"GTrans needs dense features to edit them, {needed / 1e9:.0f} GB for this graph; "
            'use edit="edges"'
        )


def _layers(model: Backbone, x: Tensor, hop: Callable[[Tensor], Tensor]) -> list[Repr]:
    assert isinstance(model, LayeredBackbone), "GTrans.require lets no other model pass"
    return model.layers(x, hop)


def _dense(x: Tensor) -> Tensor:
    return x if x.layout == torch.strided else x.to_dense()


def _zeros_like(x: Tensor) -> Tensor:
    """Dense zeros in the shape of x."""
    if not x.is_cpu:
        return torch.zeros(x.shape, dtype=x.dtype, device=x.device)
    # NumPy requests huge pages, torch does not: the first write of N F numbers is 4 times faster.
    kind = np.float64 if x.dtype is torch.float64 else np.float32
    return torch.from_numpy(np.zeros(x.shape, kind))


def _per_length(z: Repr) -> Tensor:
    """One over the length of each row, [N, 1]; 0 for rows of zeros."""
    length: Tensor = z.norm(dim=1, keepdim=True)
    return torch.where(length > torch.finfo(z.dtype).eps * length.mean(), 1 / length, 0)


def _dots(u: Repr, v: Repr) -> Tensor:
    """Inner products of rows, [N, 1]."""
    return (u * v).sum(1, keepdim=True)


def _top(p: Tensor, count: int) -> Tensor:
    """1 at the largest entries, 0 elsewhere and where p is 0."""
    chosen = torch.zeros_like(p)
    chosen[p.topk(count).indices] = 1
    return chosen * (p > 0)
