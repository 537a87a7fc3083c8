"""GTrans against a plain dense implementation, torch's Adam and SciPy, and its known pitfalls."""

import numpy as np
import pytest
import scipy.optimize
import torch
from torch.nn import functional as F  # noqa: N812
from torch_geometric.data import Data

import matcha_gnn as mg
from matcha_gnn.errors import IncompatibleError
from matcha_gnn.gamma.kernels.cosines import contrast
from matcha_gnn.gamma.kernels.edge_weights import SMALLEST, EdgePattern, project
from matcha_gnn.gamma.methods import View, gtrans
from matcha_gnn.gamma.methods.gtrans import (
    DROP_RATE,
    LOOPS,
    SAMPLES,
    GTrans,
    WholeEditor,
    editor_of,
)
from matcha_gnn.gamma.testing import tiny_graph, trained_model
from matcha_gnn.graphs.memory import Graph, unlabelled
from matcha_gnn.streams import Purpose, torch_stream
from unknown_models import Unknown, UnknownNet


def view_of(graph=None, model=None, seed=0, dtype=torch.float64):
    model = (trained_model() if model is None else model).to(dtype).frozen()
    graph = unlabelled(tiny_graph() if graph is None else graph)
    graph = Graph(graph.x.to(dtype), graph.edge_index, graph.edge_weight)
    return View(model, graph, model.hops(graph, keyed=False), model.gamma.detach().clone(), seed)


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def hops_after(method, view):
    return method.edited(view).target.hops_at(view)


def pattern_of(view):
    graph = view.graph
    return EdgePattern.of(graph.edge_index, graph.num_nodes, graph.edge_weight, graph.x.dtype)


# A plain GTrans: dense matrices, autograd through everything, torch's own optimizers.


class Plain:
    """The method as published, O(N²), from the same random draws."""

    def __init__(self, method, view):
        self.method, self.view, self.pattern = method, view, pattern_of(view)
        self.draws = torch_stream(view.seed, Purpose.GTRANS_EDITS)
        self.delta = torch.zeros_like(view.graph.x, requires_grad=True)
        self.adam = torch.optim.Adam([self.delta], lr=method.lr_feat)
        self.p = torch.full((self.pattern.num_pairs,), SMALLEST, dtype=view.graph.x.dtype)
        self.budget = int(method.ratio * self.pattern.num_pairs)

    def matrix(self, p, kept):
        raw = torch.cat([1 - p, p.new_ones(1)])[self.pattern.pair] * self.pattern.weight * kept
        n = self.view.graph.num_nodes
        dense = torch.zeros(n, n, dtype=p.dtype).index_put(
            (self.pattern.row, self.pattern.col), raw
        )
        degree = dense.sum(1)
        return dense / (degree[:, None] * degree).sqrt()

    def z(self, x, p, kept):
        matrix, hop = self.matrix(p, kept), self.view.model.encode(x)
        total = 0
        for c in self.view.hop_weights:
            total, hop = total + c * hop, matrix @ hop
        return total

    def chance(self):
        drawn = torch.rand(len(self.pattern.row), generator=self.draws)
        kept = (drawn >= DROP_RATE) | (self.pattern.row == self.pattern.col)
        return kept, torch.randperm(self.view.graph.num_nodes, generator=self.draws)

    def loss(self, x, p, kept, order):
        clean, shuffled = self.z(x, p, kept * 0 + 1), self.z(x[order], p, kept * 0 + 1)
        apart = 1 - F.cosine_similarity(clean, shuffled)
        return (1 - F.cosine_similarity(self.z(x, p, kept), clean)).mean() - apart.mean()

    def run(self):
        x, edit = self.view.graph.x, self.method.edit
        loops = (
            (edit != "edges") * LOOPS["features"],
            (edit != "features") * LOOPS["edges"],
        )
        for _ in range(self.method.epochs // sum(loops)):
            for _ in range(loops[0]):
                self.adam.zero_grad()
                self.loss(x + self.delta, self.p.detach(), *self.chance()).backward()
                self.adam.step()
            for _ in range(loops[1]):
                p = self.p.detach().clone().requires_grad_()
                optimizer = torch.optim.Adam([p], lr=self.method.lr_adj)
                self.loss((x + self.delta).detach(), p, *self.chance()).backward()
                optimizer.step()
                self.p = project(p.detach().clamp_min(SMALLEST), self.budget)
        removed = self.choose((x + self.delta).detach())
        return self.z(
            (x + self.delta).detach(), removed, torch.ones(len(self.pattern.row))
        ), removed

    def choose(self, x):
        p = self.p * (self.p > SMALLEST)
        if not p.any():
            return p
        chance, found = self.chance(), []
        top = torch.zeros_like(p).scatter(0, p.argsort(descending=True)[: self.budget], 1) * (p > 0)
        draws = [torch.bernoulli(p, generator=self.draws) for _ in range(SAMPLES - 1)]
        for candidate in (top, *draws):
            if candidate.sum() <= self.budget:
                found.append((float(self.loss(x, candidate, *chance)), candidate))
        return min(found, key=lambda pair: pair[0])[1]


SETTINGS = {
    "script's schedule": {"epochs": 10},
    "features": {"epochs": 8, "edit": "features"},
    "edges": {"epochs": 4, "edit": "edges", "lr_adj": 0.3, "ratio": 0.2},
    "many edges": {"epochs": 5, "ratio": 0.3},
}
SETTINGS = {
    name: given if given.get("edit") == "edges" else given | {"lr_feat": 0.02}
    for name, given in SETTINGS.items()
}


@pytest.mark.parametrize("name", SETTINGS)
def test_equals_the_plain_dense_implementation(name):
    method, view = GTrans(**SETTINGS[name]), view_of(seed=5)
    expected, removed = Plain(method, view).run()
    edit = method.edited(view)
    assert torch.equal(edit.removed, removed > 0)
    hops = edit.target.hops_at(view)
    torch.testing.assert_close(hops.mix(view.hop_weights), expected, rtol=1e-5, atol=1e-6)
    assert name == "features" or removed.any()


def test_equals_the_plain_one_on_a_directed_weighted_graph_with_loops():
    index = torch.randint(40, (2, 150), generator=torch.Generator().manual_seed(0))
    weight = torch.rand(150, generator=torch.Generator().manual_seed(1)).double() + 0.1
    view = view_of(Data(x=draw(40, 6), edge_index=index, edge_weight=weight))
    method = GTrans(lr_feat=0.02, epochs=10, ratio=0.2)
    expected, removed = Plain(method, view).run()
    edit = method.edited(view)
    assert removed.any()
    assert torch.equal(edit.removed, removed > 0)
    hops = edit.target.hops_at(view)
    torch.testing.assert_close(hops.mix(view.hop_weights), expected, rtol=1e-5, atol=1e-6)


# The loss


def test_the_contrast_and_its_slopes_equal_autograd():
    both, dropped = draw(50, 8).requires_grad_(), draw(50, 4, seed=1).requires_grad_()
    clean, shuffled = both.chunk(2, dim=1)
    apart = 1 - F.cosine_similarity(clean, shuffled)
    expected = (1 - F.cosine_similarity(dropped, clean)).mean() - apart.mean()
    value, slopes = contrast(both, dropped)
    torch.testing.assert_close(value, expected)
    for got, slope in zip(slopes, torch.autograd.grad(expected, (both, dropped)), strict=True):
        torch.testing.assert_close(got, slope)


# The projection


@pytest.mark.parametrize("budget", [0.5, 2.0, 4.0, 100.0])
def test_the_projection_is_the_nearest_point(budget):
    p = draw(12).abs() * 0.8 + draw(12, seed=1) * 0.3
    ours = project(p, budget)
    found = scipy.optimize.minimize(
        lambda q: 0.5 * np.sum((q - p.numpy()) ** 2),
        x0=np.full(12, budget / 24).clip(0.01, 0.9),
        jac=lambda q: q - p.numpy(),
        bounds=[(SMALLEST, 1 - SMALLEST)] * 12,
        constraints={"type": "ineq", "fun": lambda q: budget - q.sum()},
        tol=1e-12,
    )
    torch.testing.assert_close(ours, torch.from_numpy(found.x), rtol=0, atol=1e-6)
    assert ours.sum() <= budget


def test_no_epochs_is_the_source_model():
    edit = GTrans(epochs=0).edited(view_of())
    assert not edit.removed.any()
    torch.testing.assert_close(edit.target.hops_at(view_of()).stack, view_of().hops.stack)


# The edges in the end


def test_the_prediction_is_that_of_the_graph_without_both_directions_of_removed_pairs():
    view = view_of()
    pattern = pattern_of(view)
    method = GTrans(epochs=10, edit="edges", ratio=0.2)
    edit = method.edited(view)
    apart = pattern.row != pattern.col
    lost = torch.cat([edit.removed, torch.tensor([False])])[pattern.pair] & apart
    assert lost.sum() == 2 * edit.removed.sum() > 0
    edges = torch.stack([pattern.col, pattern.row])[:, apart & ~lost]
    expected = view.model.hops(Graph(view.graph.x, edges), keyed=False)
    torch.testing.assert_close(edit.target.hops_at(view).stack, expected.stack)
    prediction, _ = method.predict(view, edit)
    logits = view.model.head(expected.mix(view.hop_weights))
    torch.testing.assert_close(prediction.probs, logits.softmax(-1))


def test_sparse_features_too_large_to_be_dense_are_refused_and_edges_are_not(monkeypatch):
    monkeypatch.setattr(gtrans, "MAX_DENSE_BYTES", 2 * 120 * 6 * 4 - 1)
    dense = tiny_graph()
    sparse = Data(x=dense.x.to_sparse_csr(), edge_index=dense.edge_index)
    with pytest.raises(IncompatibleError, match='use edit="edges"'):
        mg.predict(trained_model(), sparse, GTrans(epochs=5))
    mg.predict(trained_model(), sparse, GTrans(epochs=5, edit="edges"))
    mg.predict(trained_model(), dense, GTrans(epochs=5))


def count_edits(monkeypatch):
    made, edited = [], GTrans.edited
    monkeypatch.setattr(
        GTrans, "edited", lambda self, view: (made.append(view.gamma), edited(self, view))[1]
    )
    return made


@pytest.mark.parametrize(
    ("refresh", "restart", "edits"),
    [("once", True, 1), ("once", False, 1), ("each", True, 7), ("each", False, 7)],
)
def test_how_often_the_graph_is_edited(monkeypatch, refresh, restart, edits):
    made = count_edits(monkeypatch)
    method = GTrans(epochs=5, refresh=refresh)
    mg.gamma.run(
        trained_model(), tiny_graph(), method, mg.Matcha(lr=0.1, rounds=6, restart=restart)
    )
    assert len(made) == edits, "in 7 predictions"
    assert all(not torch.equal(made[0], later) for later in made[1:]), "at the γ of their round"


# Models of other forms


@pytest.mark.parametrize("name", SETTINGS)
def test_layers_of_any_model_are_edited_as_those_of_a_filter(name):
    method = GTrans(**SETTINGS[name])
    fast, whole = view_of(seed=5), view_of(seed=5, model=Unknown(trained_model()))
    assert isinstance(editor_of(method, whole), WholeEditor)
    expected, edit = method.edited(fast), method.edited(whole)
    assert torch.equal(edit.removed, expected.removed)
    hops = edit.target.hops_at(whole)
    torch.testing.assert_close(hops.stack, expected.target.hops_at(fast).stack)


def test_a_wrapped_network_loses_the_same_edges_for_good():
    view = view_of(model=mg.wrap(UnknownNet(trained_model()), "temp", "head"))
    edit = GTrans(epochs=10, edit="edges", ratio=0.2).edited(view)
    pattern = pattern_of(view)
    lost = torch.cat([edit.removed, torch.tensor([False])])[pattern.pair]
    assert lost.any()
    edges = torch.stack([pattern.col, pattern.row])[:, ~lost & (pattern.row != pattern.col)]
    expected = view.model.representation(Graph(view.graph.x, edges))
    torch.testing.assert_close(edit.target.hops_at(view).stack[:, 0], expected)


def test_networks_that_give_no_gradient_are_refused_by_what_is_missing():
    class Weightless(UnknownNet):
        def forward(self, x, edge_index):
            return super().forward(x, edge_index)

    class Deaf(UnknownNet):
        def forward(self, x, edge_index, edge_weight=None):
            return super().forward(x.detach(), edge_index)

    def adapted(kind, edit, add=False):
        net = kind(trained_model())
        model = mg.add_hops(net, "head") if add else mg.wrap(net, "temp", "head")
        return mg.gamma.run(model, tiny_graph(), GTrans(epochs=5, edit=edit), mg.Matcha(rounds=1))

    with pytest.raises(IncompatibleError, match='takes no edge weights; use edit="features"'):
        adapted(Weightless, "both")
    with pytest.raises(IncompatibleError, match='added hops .* use edit="features"'):
        adapted(UnknownNet, "both", add=True)
    with pytest.raises(IncompatibleError, match="no gradient in the edges"):
        adapted(Deaf, "edges")
    with pytest.raises(IncompatibleError, match="no gradient in the features"):
        adapted(Deaf, "features")
    assert adapted(Weightless, "features").probs.isfinite().all()
    assert adapted(UnknownNet, "features", add=True).probs.isfinite().all()
