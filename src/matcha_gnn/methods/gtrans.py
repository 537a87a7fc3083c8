"""GTrans (Jin et al., ICLR 2023): leave the model alone and edit the target graph."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.optim.adam import adam

from matcha_gnn.backbones import Backbone
from matcha_gnn.errors import IncompatibleError, InvalidArgumentError
from matcha_gnn.hops import Hops
from matcha_gnn.kernels import Adjacency, propagate
from matcha_gnn.kernels.edge_weights import EdgePattern, weighted_filter
from matcha_gnn.methods.base import BaseMethod, Prediction, Prepared, State, Touches, View
from matcha_gnn.typing import Repr

EDITS = ("both", "features", "edges")
EDGE_STEPS = ("sign", "gradient")
SMALLEST = 1e-7
"""Edge variables stay this far from 0 and 1, so that no weight and no degree becomes 0."""
ADAM_EPSILON = 1e-8
BLOCK_ENTRIES = 1 << 20
"""Features are edited in blocks of rows of this size, in cache from gradient to product."""
MAX_DENSE_BYTES = 8 << 30
"""Sparse features are made dense for editing only if all that needs fits in this."""


class GTrans(BaseMethod):
    """Adds a learnt δ to the features and removes a budget of edges, then predicts.

    Both edits go down a label-free loss: the representation Z should not change when some edges
    are dropped, and should change when the rows of the features are shuffled:
    L = d(Z_dropped, Z) − d(Z, Z_shuffled), with d the mean of 1 − cos over nodes.

    A round is `loop_feat` Adam steps on δ, then `loop_adj` steps on p, the removal of each pair of
    joined nodes, each projected onto {Σ p ≤ B, 0 < p < 1}. In the end the B pairs of largest p,
    or a draw from p within the budget, are removed: the candidate of lowest loss.

    Reference: Jin et al., "Empowering Graph Representation Learning with Test-Time Graph
    Transformation", ICLR 2023. Defaults are those of the released script. We deviate in that δ
    starts at 0 instead of 1e-7, and that pairs which no step wants removed stay, where the top B
    would take them.

    Args:
        lr_feat: Adam's step size on δ.
        lr_adj: step size on p.
        epochs: steps in all; full rounds are run, a rest smaller than a round is left out.
        ratio: B as a share of the pairs of joined nodes.
        loop_feat: steps on δ in a round.
        loop_adj: steps on p in a round.
        drop_rate: share of directed edges that the dropped view lacks.
        samples: edge sets compared in the end, the top B among them.
        margin: None, or m for max(0, 1 − cos − m) in the second term.
        edit: "both", "features" or "edges"; a round has only the steps of what is edited.
        refresh: "once" edits at the source γ; "each" edits anew in every round of Matcha; a
            number R edits anew every R rounds, which needs `adapt(restart=False)`. Once is the
            default as an edit costs many inferences, and a round of Matcha a small part of one.
        edge_step: "sign", as in the released code, which gives p a new Adam for every step:
            each goes `lr_adj` up or down. "gradient" is the paper's plain step; the gradient of a
            mean over nodes is so small that it removes nothing with the published step sizes.

    Example:
        >>> import matcha_gnn as mg
        >>> graph = mg.datasets.csbm(num_nodes=100, num_features=8, seed=0)
        >>> result = mg.adapt(mg.GPRGNN(8, 2), graph, GTrans(epochs=5), epochs=2)
        >>> result.probs.shape
        torch.Size([100, 2])
    """

    name = "gtrans"
    touches = frozenset({Touches.FEATURES, Touches.EDGES})
    draws_at_random = True

    def __init__(
        self,
        lr_feat: float = 1e-3,
        lr_adj: float = 0.1,
        epochs: int = 50,
        ratio: float = 0.1,
        loop_feat: int = 4,
        loop_adj: int = 1,
        drop_rate: float = 0.05,
        samples: int = 5,
        margin: float | None = None,
        edit: str = "both",
        refresh: str | int = "once",
        edge_step: str = "sign",
    ) -> None:
        self.lr_feat, self.lr_adj, self.epochs, self.ratio = lr_feat, lr_adj, epochs, ratio
        self.loop_feat, self.loop_adj, self.drop_rate = loop_feat, loop_adj, drop_rate
        self.samples, self.margin, self.edit = samples, margin, edit
        self.refresh, self.edge_step = refresh, edge_step
        self._check()

    def _check(self) -> None:
        whole = self._steps("features") + self._steps("edges")
        refreshes = self.refresh in ("once", "each") or _at_least(1, self.refresh)
        rounds = _at_least(0, self.epochs) and not 0 < self.epochs < whole
        off_or_small = self.margin is None or 0 <= self.margin < 2
        checks = {
            "lr_feat": (math.isfinite(self.lr_feat) and self.lr_feat > 0, "a number > 0"),
            "lr_adj": (math.isfinite(self.lr_adj) and self.lr_adj > 0, "a number > 0"),
            "ratio": (0 <= self.ratio <= 1, "a share in [0, 1]"),
            "loop_feat": (_at_least(1, self.loop_feat), "an integer >= 1"),
            "loop_adj": (_at_least(1, self.loop_adj), "an integer >= 1"),
            "drop_rate": (0 <= self.drop_rate < 1, "a rate in [0, 1)"),
            "samples": (_at_least(1, self.samples), "an integer >= 1"),
            "margin": (off_or_small, "None or a number in [0, 2)"),
            "edit": (self.edit in EDITS, ", ".join(EDITS)),
            "refresh": (refreshes, "once, each or an integer >= 1"),
            "edge_step": (self.edge_step in EDGE_STEPS, ", ".join(EDGE_STEPS)),
            "epochs": (rounds, f"0, or an integer >= {whole}, the steps of one round"),
        }
        for name, (fine, allowed) in checks.items():
            if not fine:
                raise InvalidArgumentError(name, repr(getattr(self, name)), allowed)

    def _steps(self, part: str) -> int:
        """How many steps of a round go to this part."""
        loop = self.loop_feat if part == "features" else self.loop_adj
        return loop if self.edit in ("both", part) else 0

    def require(self, model: Backbone) -> None:
        """The edge gradient is that of Σ_k c_k P^k H_0, so the model has to be of that form."""
        if not model.is_filter or type(model).filtered is not Backbone.filtered:
            needed = "GTrans needs hops that are powers of the adjacency"
            raise IncompatibleError(f"{needed}; {model.name} makes them otherwise")

    def prepare(self, view: View) -> Prepared:
        """The edit at the source γ, unless every round makes its own."""
        return None if self.refresh in ("each", 1) else self.edited(view)

    def start(self, view: View, prepared: Prepared) -> State:
        """The first edit. A fresh start after γ has moved would undo a later one: refused."""
        counts_rounds = prepared is not None and self.refresh != "once"
        if counts_rounds and not torch.equal(view.gamma, prepared.gamma):
            needed = f"GTrans(refresh={self.refresh}) carries its edit over rounds"
            raise IncompatibleError(f"{needed}: call adapt with restart=False")
        return prepared

    def predict(self, view: View, state: State) -> tuple[Prediction, State]:
        """The model's prediction on the edited graph; the state is the edit and its age."""
        edit = self.edited(view) if state is None or state.age == self.refresh else state
        probs, sums, mass = edit.hops.classify(view.coef, view.model.head)
        prediction = Prediction(probs, edit.hops, mass=mass, class_sums=(edit.hops, sums))
        return prediction, None if state is None else replace(edit, age=edit.age + 1)

    @torch.no_grad()
    def edited(self, view: View) -> "EditedGraph":
        """Edit the view's graph at its γ, always from the graph as it was given."""
        editor = _Editor(self, view)
        rounds = self.epochs // (self._steps("features") + self._steps("edges"))
        for _ in range(rounds):
            for _ in range(self._steps("features")):
                editor.feature_step()
            for _ in range(self._steps("edges")):
                editor.edge_step()
        removed = editor.final_edges()
        values, _ = editor.pattern.normalise(editor.weights(removed))
        adjacency = Adjacency(editor.pattern.matrix(values))
        hops = Hops(propagate(adjacency, editor.h, view.model.num_hops))
        return EditedGraph(hops, removed > 0, view.gamma)


@dataclass(frozen=True, eq=False)
class EditedGraph:
    """What an edit leaves behind.

    Attributes:
        hops: of the edited features on the edited graph.
        removed: pairs, as `EdgePattern` numbers them, that lost their edges, bool [pairs].
        gamma: where the edit was made.
        age: predictions made with it so far.
    """

    hops: Hops
    removed: Tensor
    gamma: Tensor
    age: int = 0


class _Editor:
    """The variables of one edit, and the steps on them.

    Attributes:
        h: H_0 of the features as edited so far, [N, D].
        removal: p of each pair, [pairs].
    """

    def __init__(self, method: GTrans, view: View) -> None:
        self.method, self.margin, self.coef = method, method.margin, view.coef
        graph, x = view.graph, view.model.accept(view.graph.x)
        self.pattern = EdgePattern.of(graph.edge_index, graph.num_nodes, graph.edge_weight, x.dtype)
        self.draws = torch.Generator(x.device).manual_seed(view.seed)
        self.removal = self.pattern.weight.new_full((self.pattern.num_pairs,), SMALLEST)
        self.budget = int(method.ratio * self.pattern.num_pairs)
        self.features = None
        if method.epochs and method._steps("features"):
            self.features = _Features(view.model, x, method.lr_feat)
        self.h = self.features.encoded() if self.features else view.hops.stack[:, 0].contiguous()

    def feature_step(self) -> None:
        """One Adam step on δ."""
        assert self.features is not None
        kept, order = self.draw()
        both, h = self.pair_of_views(order).requires_grad_(), self.h.requires_grad_()
        with torch.enable_grad():
            views = self.views(both, h, self.weights(self.removal), kept)
        _, slopes = contrast(*views, self.margin)
        of_both, of_dropped = torch.autograd.grad(views, (both, h), slopes)
        of_clean, of_shuffled = of_both.chunk(2, dim=1)
        self.h = self.features.step(of_clean + of_dropped + of_shuffled[order.argsort()])

    def edge_step(self) -> None:
        """One step on p and the projection; nothing where the budget is less than one pair."""
        if not self.budget:
            return
        kept, order = self.draw()
        p = self.removal.requires_grad_()
        with torch.enable_grad():
            views = self.views(self.pair_of_views(order), self.h.detach(), self.weights(p), kept)
        _, slopes = contrast(*views, self.margin)
        (slope,) = torch.autograd.grad(views, p, slopes)
        if self.method.edge_step == "sign":
            # The first step of an Adam that has seen nothing.
            slope = slope / (slope.abs() + ADAM_EPSILON)
        self.removal = project(p.detach() - self.method.lr_adj * slope, self.budget)

    def final_edges(self) -> Tensor:
        """The best of `samples` edge sets within the budget: 1 where a pair is removed, else 0."""
        p = self.removal.detach()
        p = torch.where(p > SMALLEST, p, 0)
        best, lowest = torch.zeros_like(p), math.inf
        if not p.any():
            return best
        kept, order = self.draw()
        both = self.pair_of_views(order)
        for sample in range(self.method.samples):
            drawn = torch.bernoulli(p, generator=self.draws) if sample else _top(p, self.budget)
            if drawn.sum() > self.budget:
                continue
            views = self.views(both, self.h, self.weights(drawn), kept)
            loss = float(contrast(*views, self.margin)[0])
            if loss < lowest:
                best, lowest = drawn, loss
        return best

    def pair_of_views(self, order: Tensor) -> Tensor:
        """H_0 and its shuffled rows side by side, [N, 2D]: they go through the graph together."""
        h = self.h.detach()
        return torch.cat([h, h.index_select(0, order)], dim=1)

    def views(self, both: Tensor, h: Repr, weight: Tensor, kept: Tensor) -> tuple[Tensor, Repr]:
        """Z of the clean and shuffled views side by side [N, 2D], and of the dropped one [N, D]."""
        clean_and_shuffled = weighted_filter(self.pattern, weight, both, self.coef)
        return clean_and_shuffled, weighted_filter(self.pattern, weight * kept, h, self.coef)

    def draw(self) -> tuple[Tensor, Tensor]:
        """Which entries the dropped view keeps (self loops always), [M], and a shuffle, [N]."""
        pattern, device = self.pattern, self.h.device
        drawn = torch.rand(len(pattern.row), generator=self.draws, device=device)
        kept = (drawn >= self.method.drop_rate) | (pattern.row == pattern.col)
        return kept, torch.randperm(len(self.h), generator=self.draws, device=device)

    def weights(self, p: Tensor) -> Tensor:
        """Raw weights of all entries when each pair keeps 1 − p of its own, [M]."""
        kept = torch.cat([1 - p, p.new_ones(1)])
        return self.pattern.weight * kept.index_select(0, self.pattern.pair)


class _Features:
    """x + δ and Adam's two moments, in blocks of rows.

    The encoder works on rows, so a block's gradient, Adam step and new product follow each other
    while the block is in cache, and the gradient never exists as a whole. Takes three times N F.
    """

    def __init__(self, model: Backbone, x: Tensor, lr: float) -> None:
        self.model, self.lr, self.num_steps = model, lr, 0
        needed = 3 * x.shape[0] * x.shape[1] * x.element_size()
        if x.layout != torch.strided and needed > MAX_DENSE_BYTES:
            said = f"GTrans makes sparse features dense to edit them: {needed / 1e9:.0f} GB here"
            raise IncompatibleError(f'{said}; use edit="edges"')
        edited, mean, square = _zeros_like(x), _zeros_like(x), _zeros_like(x)
        edited.copy_(x if x.layout == torch.strided else x.to_dense())
        size = max(1, BLOCK_ENTRIES // x.shape[1])
        parts = (torch.split(part, size) for part in (edited, mean, square))
        self.blocks = list(zip(*parts, strict=True))
        with torch.enable_grad():
            self.rows = [model.encode(block.requires_grad_()) for block, *_ in self.blocks]

    def encoded(self) -> Repr:
        """H_0, detached, [N, D]."""
        return torch.cat(self.rows).detach()

    def step(self, slope: Tensor) -> Repr:
        """One step down the gradient that has this slope in H_0, [N, D]; returns the new H_0."""
        parts = torch.split(slope, [len(rows) for rows in self.rows])
        for i, (block, mean, square) in enumerate(self.blocks):
            (gradient,) = torch.autograd.grad(self.rows[i], block, parts[i])
            self._adam(block.detach(), gradient, mean, square)
            with torch.enable_grad():
                self.rows[i] = self.model.encode(block)
        self.num_steps += 1
        return self.encoded()

    def _adam(self, block: Tensor, gradient: Tensor, mean: Tensor, square: Tensor) -> None:
        # The function under `torch.optim.Adam`: it works on the buffers given, in one pass.
        steps = torch.full((), float(self.num_steps), device=block.device)
        rates: dict[str, Any] = {"lr": self.lr, "beta1": 0.9, "beta2": 0.999, "eps": ADAM_EPSILON}
        off: dict[str, Any] = {"amsgrad": False, "weight_decay": 0.0, "maximize": False}
        adam([block], [gradient], [mean], [square], [], [steps], fused=True, **rates, **off)


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
    (c, per_c), (s, per_s), (d, per_d) = map(_directions, (clean, shuffled, dropped))
    same, other = (c * d).sum(1, keepdim=True), (c * s).sum(1, keepdim=True)
    apart = 1 - other
    pushes = torch.ones_like(apart)
    if margin is not None:
        pushes = (apart > margin).to(apart)
        apart = (apart - margin).relu()
    # The derivative of cos(u, v) in u is what of v/|v| is orthogonal to u, over |u|.
    share = 1 / len(clean)
    of_clean = (pushes * (s - other * c) - (d - same * c)).mul_(per_c * share)
    of_shuffled = (c - other * s).mul_(pushes * per_s * share)
    of_dropped = (c - same * d).mul_(per_d * -share)
    return (1 - same).mean() - apart.mean(), (torch.cat([of_clean, of_shuffled], 1), of_dropped)


def project(p: Tensor, budget: float) -> Tensor:
    """The point nearest to p with entries inside (0, 1) whose sum is at most the budget.

    It is p − μ cut to the interval, with the smallest μ ≥ 0 that meets the budget, by bisection.

    Example:
        >>> project(torch.tensor([0.5, 0.25, -1.0]), budget=0.25)
        tensor([2.5000e-01, 1.0000e-07, 1.0000e-07])
    """

    def cut(shift: float) -> Tensor:
        return (p - shift).clamp(SMALLEST, 1 - SMALLEST)

    if float(cut(0.0).double().sum()) <= budget:
        return cut(0.0)
    low, high = 0.0, float(p.max())
    # Halved until the two ends are neighbours for the precision of p.
    for _ in range(2 - int(math.log2(torch.finfo(p.dtype).eps))):
        middle = (low + high) / 2
        over = float(cut(middle).double().sum()) > budget
        low, high = (middle, high) if over else (low, middle)
    return cut(high)


def _directions(z: Repr) -> tuple[Repr, Tensor]:
    """Rows of length 1 [N, D], and what they were multiplied by [N, 1]; 0 for rows of zeros."""
    length: Tensor = z.norm(dim=1, keepdim=True)
    per_length = torch.where(length > torch.finfo(z.dtype).eps * length.mean(), 1 / length, 0)
    return z * per_length, per_length


def _top(p: Tensor, count: int) -> Tensor:
    """1 at the largest entries, 0 elsewhere and where p is 0."""
    chosen = torch.zeros_like(p)
    chosen[p.topk(count).indices] = 1
    return chosen * (p > 0)


def _zeros_like(x: Tensor) -> Tensor:
    """Dense zeros in the shape of x."""
    if not x.is_cpu:
        return torch.zeros(x.shape, dtype=x.dtype, device=x.device)
    # NumPy asks for huge pages, torch does not: the first touch of N F numbers is 4 times faster.
    kind = np.float64 if x.dtype is torch.float64 else np.float32
    return torch.from_numpy(np.zeros(x.shape, kind))


def _at_least(least: int, value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least
