"""GraphPatcher against explicit graphs with virtual nodes, its training, and its edges."""

from dataclasses import replace

import pytest
import torch
import torch_geometric.nn as pyg
from torch import nn
from torch.nn import functional as F  # noqa: N812

import matcha_gnn as mg
from matcha_gnn.gamma.kernels.virtual_nodes import (
    neighbour_sums,
    patched_adjacency,
    propagate_patched,
)
from matcha_gnn.gamma.methods import View
from matcha_gnn.gamma.methods.graphpatcher import (
    MOST_PATCHES,
    GraphPatcher,
    Patcher,
    PatcherTraining,
    Patching,
)
from matcha_gnn.gamma.models import BACKBONES
from matcha_gnn.gamma.testing import tiny_graph, trained_model
from matcha_gnn.graphs.memory import Graph

NODES, FEATURES, WIDTH, K = 30, 6, 5, 3
SMALL = {"hidden_channels": 8, "iterations": 10}
SETTINGS = GraphPatcher(hidden_channels=WIDTH, iterations=20)


def directed_graph(dtype=torch.float64):
    """Directed and weighted, with repeated edges and self loops."""
    generator = torch.Generator().manual_seed(5)
    edges = torch.randint(NODES, (2, 3 * NODES), generator=generator)
    loops = torch.arange(4).repeat(2, 1)
    edges = torch.cat([edges, edges[:, :5], loops], 1)
    return Graph(
        torch.randn(NODES, FEATURES, generator=generator, dtype=dtype),
        edges,
        torch.rand(edges.shape[1], generator=generator, dtype=dtype),
    )


def model_of(classes=3, width=8, bias=False, dtype=torch.float64, hops=K):
    """A GPRGNN whose weights, statistics and γ are all away from their starting values."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = mg.GPRGNN(FEATURES, classes, hidden_channels=width, K=hops)
        model.head = nn.Linear(width, classes, bias=bias)
        for tensor in (model.norm.weight, model.norm.bias, model.norm.running_mean, model.gamma):
            nn.init.normal_(tensor)
        nn.init.uniform_(model.norm.running_var, 0.5, 2.0)
    return model.to(dtype).frozen()


class TwoLayers(nn.Module):
    """A network as PyG's users write them."""

    def __init__(self):
        super().__init__()
        self.first, self.second = pyg.GCNConv(FEATURES, 8), pyg.GCN2Conv(8, 0.2, 0.5, 1)
        self.last = nn.Linear(8, 3)

    def forward(self, x, edge_index, edge_weight=None):
        start = self.first(x, edge_index, edge_weight).relu()
        return self.last(self.second(start, start, edge_index, edge_weight).relu())


def other_model(kind):
    """A model that is no filter, away from its starting values."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = mg.wrap(TwoLayers()) if kind == "wrapped" else BACKBONES[kind](FEATURES, 3, 8)
        for parameter in model.parameters():
            parameter.data.add_(0.2 * torch.randn_like(parameter))
    return model.double().frozen()


OTHERS = ("jknet", "gcnii", "wrapped")


def patcher_of(dtype=torch.float64):
    patcher = Patcher(FEATURES, WIDTH)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        patcher.reset_parameters()
        for layer in (patcher.first, patcher.second, patcher.merge, patcher.middle):
            nn.init.normal_(layer.bias)
    return patcher.to(dtype).eval()


def with_patcher(model, patches=2):
    patcher = patcher_of(model.head.weight.dtype)
    weights = {name: tensor.clone() for name, tensor in patcher.state_dict().items()}
    model.source_arrays = {"graphpatcher": weights | {"patches": torch.tensor([patches])}}
    return model


def trained_patcher(model, method, graph=None, seed=0):
    graph = tiny_graph(0.8, seed=0) if graph is None else graph
    everyone = torch.ones(graph.num_nodes, dtype=torch.bool)
    return method.source_arrays(model, mg.unlabelled(graph), graph.y, everyone, seed)


def training_of(method=SETTINGS, graph=None, model=None):
    graph = directed_graph() if graph is None else graph
    labels = torch.arange(NODES) % 3
    everyone = torch.ones(NODES, dtype=torch.bool)
    run = PatcherTraining(model or model_of(), graph, labels, everyone, method)
    run.patcher.load_state_dict(patcher_of().state_dict())
    return run


def view_of(model, graph):
    return View(model, graph, model.hops(graph), model.gamma.detach().clone(), 0)


def explicit_graph(graph, virtual, centres):
    """The larger graph itself: one more node for each centre and entry of `virtual`."""
    x, edges, weight = graph.x, graph.edge_index, graph.edge_weight
    for features in virtual:
        new = torch.arange(len(x), len(x) + len(centres))
        x = torch.cat([x, features])
        edges = torch.cat([edges, torch.stack([new, centres])], 1)
        weight = torch.cat([weight, torch.ones(len(centres), dtype=weight.dtype)])
    return Graph(x, edges, weight)


def mean_layer(graph, h, layer):
    """Dense mean over a node and its senders, by weight, then a linear map."""
    weights = torch.eye(graph.num_nodes, dtype=h.dtype)
    for (sender, receiver), weight in zip(graph.edge_index.T, graph.edge_weight, strict=True):
        if sender != receiver:
            weights[receiver, sender] += weight
    return layer(weights @ h / weights.sum(1, keepdim=True))


def plain_patch(patcher, graph, centres, earlier):
    """Features of the next virtual nodes, from the explicit graph of the earlier ones."""
    current = explicit_graph(graph, earlier, centres)
    h = mean_layer(current, current.x, patcher.first).relu()
    h = mean_layer(current, h, patcher.second).relu()
    h = torch.cat([h[centres], graph.x[centres]], 1)
    return patcher.last(patcher.middle(patcher.merge(h).relu()).relu())


def plain_virtual_features(patcher, graph, centres, patches):
    virtual = []
    for _ in range(patches):
        virtual.append(plain_patch(patcher, graph, centres, virtual).detach())
    return virtual


def virtual_features(patcher, graph, centres, patches):
    patching = Patching(patcher, graph.x, neighbour_sums(graph), centres)
    return [patcher.last(patching()) for _ in range(patches)]


SOME = torch.tensor([0, 2, 3, 7, 11, 29])
ALL = torch.arange(NODES)


@pytest.fixture(scope="module")
def small_model():
    model = trained_model()
    model.source_arrays = {"graphpatcher": trained_patcher(model, GraphPatcher("source", **SMALL))}
    return model


@pytest.mark.parametrize("patches", [1, 2, 5])
@pytest.mark.parametrize("centres", [SOME, ALL], ids=["some", "all"])
def test_patched_hops_are_those_of_the_explicit_graph(patches, centres):
    graph, generator = directed_graph(), torch.Generator().manual_seed(0)
    h = torch.randn(NODES, 4, generator=generator, dtype=torch.float64)
    virtual = [torch.randn(len(centres), 4, generator=generator).double() for _ in range(patches)]
    adjacency, share = patched_adjacency(graph, centres, patches, torch.float64)
    pushed = torch.zeros_like(h).index_add(0, centres, sum(virtual)) * share[:, None]
    stack = propagate_patched(adjacency, h, pushed, K)

    whole = explicit_graph(replace(graph, x=h), virtual, centres)
    explicit = whole.x
    for k in range(K + 1):
        torch.testing.assert_close(stack[:, k], explicit[:NODES], atol=1e-12, rtol=0)
        torch.testing.assert_close(explicit[NODES:], torch.cat(virtual))
        explicit = whole.adjacency @ explicit


@pytest.mark.parametrize("centres", [SOME, ALL], ids=["some", "all"])
def test_virtual_features_are_those_of_a_plain_generator(centres):
    graph, patcher = directed_graph(), patcher_of()
    ours = virtual_features(patcher, graph, centres, 3)
    plain = plain_virtual_features(patcher, graph, centres, 3)
    for got, wanted in zip(ours, plain, strict=True):
        torch.testing.assert_close(got, wanted)
    assert not torch.allclose(ours[0], ours[1])


@pytest.mark.parametrize("patches", [1, 3])
@pytest.mark.parametrize("shape", [{}, {"bias": True}, {"classes": 12, "bias": True}], ids=str)
def test_prediction_is_the_models_on_the_explicit_graph(patches, shape):
    graph, model = directed_graph(), with_patcher(model_of(**shape))
    probs = mg.predict(model, graph, GraphPatcher(patches)).probs
    virtual = plain_virtual_features(patcher_of(), graph, ALL, patches)
    whole = explicit_graph(graph, virtual, ALL)
    logits = model(whole.x, whole.edge_index, whole.edge_weight)
    torch.testing.assert_close(probs, logits[:NODES].softmax(-1))


@pytest.mark.parametrize("kind", OTHERS)
@pytest.mark.parametrize("patches", [1, 3])
def test_other_models_run_on_the_explicit_graph_at_every_gamma(kind, patches):
    graph, model = directed_graph(), with_patcher(other_model(kind))
    virtual = plain_virtual_features(patcher_of(), graph, ALL, patches)
    whole = explicit_graph(graph, virtual, ALL)
    for rounds in (0, 2):
        strategy = mg.Matcha(lr=0.05, rounds=rounds) if rounds else mg.Unadapted()
        result = mg.gamma.run(model, graph, GraphPatcher(patches), strategy)
        logits = result.model(whole.x, whole.edge_index, whole.edge_weight)
        torch.testing.assert_close(result.probs, logits[:NODES].softmax(-1))
    assert not torch.equal(result.gamma, result.gamma_before)


@pytest.mark.parametrize("kind", ["gprgnn", *OTHERS])
def test_loss_and_gradient_are_those_of_the_explicit_graphs(monkeypatch, kind):
    """One pass of training, step by step, by the model itself on graphs built node by node."""
    run, drawn = training_of(model=model_of() if kind == "gprgnn" else other_model(kind)), []
    run.patcher.eval()
    thinned = run._thinned
    monkeypatch.setattr(
        run, "_thinned", lambda c, rate: drawn.append((rate, thinned(c, rate))) or drawn[-1][1]
    )
    torch.manual_seed(0)
    loss = run.loss(SOME)
    assert [rate for rate, _ in drawn] == [0.9, 0.6, 0.3]
    slopes = torch.autograd.grad(loss, list(run.patcher.parameters()))

    model, graphs = run.model, [graph for _, graph in drawn]
    targets = [graphs[1], graphs[2], directed_graph()]
    wanted, earlier = 0.0, []
    for fuller in targets:
        latest = plain_patch(run.patcher, graphs[0], SOME, earlier)
        whole = explicit_graph(graphs[0], [*earlier, latest], SOME)
        patched = model(whole.x, whole.edge_index, whole.edge_weight)[SOME].log_softmax(-1)
        target = model(fuller.x, fuller.edge_index, fuller.edge_weight)[SOME].softmax(-1)
        wanted += F.kl_div(patched, target, reduction="batchmean")
        earlier.append(latest.detach())
    torch.testing.assert_close(loss, wanted)
    plain_slopes = torch.autograd.grad(wanted, list(run.patcher.parameters()))
    for slope, plain in zip(slopes, plain_slopes, strict=True):
        assert plain.abs().max() > 1e-5
        torch.testing.assert_close(slope, plain)


def test_thinning_takes_from_centres_only():
    run, graph = training_of(), directed_graph()
    torch.manual_seed(0)
    kept = [run._thinned(SOME, 0.5) for _ in range(400)]
    sender, receiver = graph.edge_index
    weight = graph.edge_weight.tolist()
    assert len(set(weight)) == len(weight)
    counts = torch.zeros(len(weight))
    for thin in kept:
        counts += torch.tensor([w in set(thin.edge_weight.tolist()) for w in weight])
    spared = ~torch.isin(receiver, SOME) | (sender == receiver)
    assert bool((counts[spared] == 400).all())
    assert bool(((counts[~spared] > 140) & (counts[~spared] < 260)).all())
    assert run._thinned(SOME, 1.0).edge_index.shape[1] == int(spared.sum())


def test_labels_enter_no_loss():
    # Labels choose the weights at the tenth iteration first.
    model, method = trained_model(), GraphPatcher(hidden_channels=8, iterations=9)
    graph, other = tiny_graph(0.8, seed=0), tiny_graph(0.8, seed=0)
    other.y = other.y.flip(0)
    first, second = (trained_patcher(model, method, g) for g in (graph, other))
    assert all(torch.equal(first[name], second[name]) for name in first if name != "patches")


def test_accuracy_is_taken_on_labelled_nodes_of_the_patched_source():
    graph, model = directed_graph(), model_of()
    labels, labelled = torch.arange(NODES) % 3, torch.arange(NODES) < 11
    run = PatcherTraining(model, graph, labels, labelled, SETTINGS)
    run.patcher.load_state_dict(patcher_of().state_dict())
    assert run._evaluate()
    scores = []
    for patches in range(1, MOST_PATCHES + 1):
        probs = mg.predict(with_patcher(model), graph, GraphPatcher(patches)).probs
        scores.append(mg.metrics.accuracy(probs, labels, labelled))
    assert run.best_score == pytest.approx(max(scores))
    assert run.best_patches == 1 + scores.index(max(scores))
