"""GTrans' variables, the steps on them and its loss; for filters, and for models of any form."""

import abc
import math
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from matcha_gnn.errors import IncompatibleError
from matcha_gnn.gamma.kernels.edge_weights import EdgePattern, weighted_filter
from matcha_gnn.gamma.methods.base import View
from matcha_gnn.gamma.methods.gtrans.features import ADAM_EPSILON, features_of
from matcha_gnn.gamma.methods.whole import MakeHops
from matcha_gnn.gamma.models import FilterBackbone
from matcha_gnn.kernels import Adjacency, propagate
from matcha_gnn.streams import Purpose, torch_stream
from matcha_gnn.typing import Repr

if TYPE_CHECKING:
    from matcha_gnn.gamma.methods.gtrans.method import GTrans

SMALLEST = 1e-7
"""Edge variables stay this far from 0 and 1, so that no weight and no degree becomes 0."""


class Draw(NamedTuple):
    """Which entries the dropped view keeps (self loops always), [M], and a shuffle, [N]."""

    kept: Tensor
    order: Tensor


class Entries(NamedTuple):
    """Edges as an editor sees them; see `EdgePattern`."""

    row: Tensor
    col: Tensor
    weight: Tensor
    pair: Tensor
    num_pairs: int

    @classmethod
    def of(cls, pattern: EdgePattern) -> "Entries":
        """Those of A + I."""
        return cls(pattern.row, pattern.col, pattern.weight, pattern.pair, pattern.num_pairs)


class Editor(abc.ABC):
    """The variables of one edit, and the steps on them.

    Args:
        method: the settings.
        view: what is edited, and at which γ.
        entries: its edges.

    Attributes:
        removal: p of each pair, [pairs].
    """

    def __init__(self, method: "GTrans", view: View, entries: Entries) -> None:
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
        _, slopes = contrast(*views, self.method.margin)
        slope = self.descent(views, p, "edges", slopes)
        if self.method.edge_step == "sign":
            # The first step of Adam.
            slope = slope / (slope.abs() + ADAM_EPSILON)
        self.removal = project(p.detach() - self.method.lr_adj * slope, self.budget)

    def descent(
        self, views: tuple[Tensor, ...], leaf: Tensor, what: str, slopes: tuple[Tensor, ...]
    ) -> Tensor:
        """The gradient in a leaf, "features" or "edges"; IncompatibleError if there is none."""
        found = None
        if any(view.requires_grad for view in views):
            (found,) = torch.autograd.grad(views, leaf, slopes, allow_unused=True)
        if found is None:
            other = "edges" if what == "features" else "features"
            raise IncompatibleError(
                f"GTrans: the model's output has no gradient in the {what}; use edit={other!r}"
            )
        return found

    def final_edges(self) -> Tensor:
        """The best of `samples` edge sets within the budget: 1 where a pair is removed, else 0."""
        p = self.removal.detach()
        p = torch.where(p > SMALLEST, p, 0)
        best, lowest = torch.zeros_like(p), math.inf
        if not p.any():
            return best
        draw = self.draw()
        for sample in range(self.method.samples):
            drawn = torch.bernoulli(p, generator=self.draws) if sample else _top(p, self.budget)
            if drawn.sum() > self.budget:
                continue
            loss = float(contrast(*self.views(draw, drawn), self.method.margin)[0])
            if loss < lowest:
                best, lowest = drawn, loss
        return best

    def draw(self) -> Draw:
        """The random draws of one step."""
        row, col, device = self.entries.row, self.entries.col, self.entries.row.device
        drawn = torch.rand(len(row), generator=self.draws, device=device)
        kept = (drawn >= self.method.drop_rate) | (row == col)
        return Draw(
            kept,
            torch.randperm(self.view.graph.num_nodes, generator=self.draws, device=device),
        )

    def weights(self, p: Tensor) -> Tensor:
        """Raw weights of all entries when each pair keeps 1 − p of its weight, [M]."""
        kept = torch.cat([1 - p, p.new_ones(1)])
        return self.entries.weight * kept.index_select(0, self.entries.pair)


class FilterEditor(Editor):
    """For Σ_k c_k P^k H_0: all three views share H_0, and an edge step reads no features.

    Attributes:
        h: H_0 of the features as edited so far, [N, D].
    """

    def __init__(self, method: "GTrans", view: View, model: FilterBackbone) -> None:
        graph, x = view.graph, model.accept(view.graph.x)
        edges, weight = graph.edge_index, graph.edge_weight
        self.pattern = EdgePattern.of(edges, graph.num_nodes, weight, x.dtype)
        super().__init__(method, view, Entries.of(self.pattern))
        self.model, self.hop_weights, self.features = model, view.hop_weights, None
        if method.edits("features"):
            self.features = features_of(model, x, method.lr_feat)
        self.h = self.features.h if self.features else self._encoded(x)

    def _encoded(self, x: Tensor) -> Repr:
        """H_0 of features that are not edited: from the hops, unless the norm has drifted."""
        return (
            self.model.encode(x) if self.method.drift else self.view.hops.stack[:, 0].contiguous()
        )

    def views(self, draw: Draw, p: Tensor) -> tuple[Tensor, Repr]:
        """From H_0 as it is."""
        return self._views(self._pair(draw.order), self.h.detach(), draw, p)

    def feature_step(self) -> None:
        """One Adam step on δ."""
        assert self.features is not None
        draw = self.draw()
        both, h = self._pair(draw.order).requires_grad_(), self.h.requires_grad_()
        with torch.enable_grad():
            views = self._views(both, h, draw, self.removal.detach())
        _, slopes = contrast(*views, self.method.margin)
        of_both, of_dropped = torch.autograd.grad(views, (both, h), slopes)
        of_clean, of_shuffled = of_both.chunk(2, dim=1)
        back = torch.empty_like(draw.order)
        back[draw.order] = torch.arange(len(back), device=back.device)
        self.features.step(of_dropped.add_(of_clean).add_(of_shuffled.index_select(0, back)))
        self.h = self.features.h

    def edited(self, removed: Tensor) -> MakeHops:
        """Hops of H_0 over the remaining edges."""
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
        return clean_and_shuffled, weighted_filter(
            self.pattern, weight * draw.kept, h, self.hop_weights
        )


@torch.no_grad()
def contrast(
    clean_and_shuffled: Tensor, dropped: Repr, margin: float | None
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """d(dropped, clean) − d(clean, shuffled), d the mean over nodes of 1 − cos, and its slopes.

    A row of zeros has no direction: its cosine counts as 0 and has no slope.

    Args:
        clean_and_shuffled: Z on the edited graph, and with shuffled feature rows, [N, 2D].
        dropped: Z without some of the edges, [N, D].
        margin: m for max(0, 1 − cos − m) in the second term, or None.

    Example:
        >>> value, slopes = contrast(torch.tensor([[2.0, 0, 0, 3]]), torch.tensor([[1.0, 0]]), None)
        >>> value, slopes[0]
        (tensor(-1.), tensor([[0.0000, 0.5000, 0.3333, 0.0000]]))
    """
    clean, shuffled = clean_and_shuffled.chunk(2, dim=1)
    per_c, per_s, per_d = map(_per_length, (clean, shuffled, dropped))
    with_d, with_s = per_c * per_d, per_c * per_s
    same, other = _dots(clean, dropped) * with_d, _dots(clean, shuffled) * with_s
    apart = 1 - other
    pushes = torch.ones_like(apart)
    if margin is not None:
        pushes = (apart > margin).to(apart)
        apart = (apart - margin).relu()
    # The derivative of cos(u, v) in u is the part of v/|v| orthogonal to u, over |u|: a sum of the
    # two with one factor for each node, so that no unit vector is stored.
    share = 1 / len(clean)
    with_s, with_d, other = share * pushes * with_s, share * with_d, share * pushes * other
    of_both = torch.empty_like(clean_and_shuffled)
    of_clean, of_shuffled = of_both.chunk(2, dim=1)
    torch.mul(clean, per_c * per_c * (share * same - other), out=of_clean)
    of_clean.addcmul_(shuffled, with_s).addcmul_(dropped, with_d, value=-1)
    torch.mul(clean, with_s, out=of_shuffled)
    of_shuffled.addcmul_(shuffled, per_s * per_s * other, value=-1)
    of_dropped = (dropped * (share * per_d * per_d * same)).addcmul_(clean, with_d, value=-1)
    return (1 - same).mean() - apart.mean(), (of_both, of_dropped)


def project(p: Tensor, budget: float) -> Tensor:
    """The point nearest to p with entries inside (0, 1) whose sum is at most the budget.

    It is p − μ clipped to the interval, with the smallest μ ≥ 0 within the budget, by bisection.

    Example:
        >>> project(torch.tensor([0.5, 0.25, -1.0]), budget=0.25)
        tensor([2.5000e-01, 1.0000e-07, 1.0000e-07])
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
