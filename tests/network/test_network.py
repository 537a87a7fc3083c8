"""Plain PyG networks as they are: fourteen kinds, trained by plain loops, through one call."""

import copy
from functools import cache

import pytest
import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.utils import k_hop_subgraph

import matcha_gnn as mg
from matcha_gnn.datasets import csbm
from matcha_paper.studies.plain_networks import KINDS, trained

SIZE = {"num_nodes": 400, "num_features": 20, "signal": 2.0, "degree": 6}


@cache
def case(name):
    """A trained network, its source and its target."""
    kind = KINDS[name]
    source, target = csbm(**SIZE, homophily=0.85, seed=0), csbm(**SIZE, homophily=0.15, seed=1)
    source.train_mask = torch.rand(400, generator=torch.Generator().manual_seed(0)) < 0.5
    source, target = kind.data(source), kind.data(target)
    return trained(kind, source, 2, seed=0, epochs=40), source, target


def accuracy(probs, graph):
    return float((probs.argmax(1) == graph.y).double().mean())


def same_fields(graph, before):
    for name in before.keys():  # noqa: SIM118 (a Data)
        one, other = graph[name], before[name]
        if one.layout != torch.strided:
            one, other = one.to_dense(), other.to_dense()
        assert torch.equal(one, other), name


@pytest.mark.parametrize("name", KINDS)
def test_a_network_is_taken_as_it_is(name):
    net, source, target = case(name)
    weights, graph = copy.deepcopy(net.state_dict()), target.clone()
    attributes = {path: set(vars(module)) for path, module in net.named_modules()}
    summary = mg.summarise_source(net, source, trained=source.train_mask)
    result = mg.adapt(net, target, source=summary)
    own = KINDS[name].answer(net, target)
    torch.testing.assert_close(result.probs_before, own, rtol=0, atol=1e-6)
    torch.testing.assert_close(mg.predict(net, target).probs, own, rtol=0, atol=1e-6)
    assert result.status == "adapted"
    assert accuracy(result.probs, target) > accuracy(own, target) + 0.02
    torch.testing.assert_close(result.model(target).softmax(1), result.probs, rtol=0, atol=1e-5)
    assert all(torch.equal(net.state_dict()[key], value) for key, value in weights.items())
    assert {path: set(vars(module)) for path, module in net.named_modules()} == attributes
    same_fields(target, graph)
    assert not net.training


class Batches:
    """Batches as a NeighborLoader with all neighbours makes them: seeds first."""

    def __init__(self, data, size=150, hops=2, only=None):
        self.data, self.size, self.hops = data, size, hops
        self.only, self.runs = only, 0

    def __iter__(self):
        self.runs += 1
        number = self.only or self.data.num_nodes
        for start in range(0, number, self.size):
            seeds = torch.arange(start, min(start + self.size, number))
            nodes, _, _, kept = k_hop_subgraph(
                seeds, self.hops, self.data.edge_index, num_nodes=self.data.num_nodes
            )
            others = nodes[(nodes < start) | (nodes >= start + len(seeds))]
            n_id = torch.cat([seeds, others])
            place = torch.full((self.data.num_nodes,), -1)
            place[n_id] = torch.arange(len(n_id))
            yield Data(
                x=self.data.x[n_id],
                edge_index=place[self.data.edge_index[:, kept]],
                n_id=n_id,
                batch_size=len(seeds),
            )


def test_a_network_runs_through_its_own_loader():
    net, source, target = case("GraphSAGE")
    whole = mg.adapt(net, target, source=source)
    loader = Batches(target, hops=2)
    result = mg.adapt(net, target, source=source, loader=loader)
    assert loader.runs > 0
    torch.testing.assert_close(result.probs_before, whole.probs_before, rtol=0, atol=1e-6)
    assert result.chosen == whole.chosen
    torch.testing.assert_close(result.probs, whole.probs, rtol=0, atol=1e-5)
    one = mg.predict(net, target, loader=Batches(target, size=400))
    assert one.probs.equal(mg.predict(net, target).probs)


def test_a_function_makes_the_loader_of_every_graph():
    net, source, _ = case("GraphSAGE")
    made = []

    def loader(data):
        assert "y" not in data
        made.append(Batches(data, hops=2))
        return made[-1]

    batched = mg.summarise_source(net, source, loader=loader)
    assert len(made) >= 4
    whole = mg.summarise_source(net, source)
    for name, tensor in whole.tensors().items():
        torch.testing.assert_close(batched.tensors()[name], tensor, rtol=1e-3, atol=1e-4)


def bad_batches(data):
    yield Data(x=data.x, edge_index=data.edge_index)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda data: Batches(data, only=300), "batches without 100 of 400 nodes as seeds"),
        (lambda data: list(bad_batches(data)), "allowed: batches with batch_size, and with"),
        (lambda data: 3, "loader: got a int; allowed: an iterable"),
        (lambda data: lambda given: 3, "loader: got a function that returns a int; allowed"),
    ],
)
def test_what_is_no_loader_is_refused_in_one_line(make, says):
    net, _, target = case("GraphSAGE")
    with pytest.raises(mg.InvalidArgumentError, match=says):
        mg.predict(net, target, loader=make(target))


class Returning(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.lin, self.shape = nn.Linear(20, 3), shape

    def forward(self, x, edge_index):
        return self.shape(self.lin(x), edge_index)


@pytest.mark.parametrize(
    ("shape", "says"),
    [
        (lambda out, e: out.mean(0, keepdim=True), "one row for the whole graph: .*graphs cannot"),
        (lambda out, e: out[e[0]] * out[e[1]], "one row for each edge: .*edges cannot"),
        (lambda out, e: out[:7], r"shape \[7, 3\]: one row of logits for each of 400 nodes"),
        (lambda out, e: out.argmax(1), "returns torch.int64: labels, where logits"),
        (lambda out, e: (out[:3], 1), "returns a tuple in which no tensor has a row for each"),
        (lambda out, e: {"logits": out}, "returns a dict: name the classifying layer"),
        (lambda out, e: None, "returns a NoneType"),
    ],
)
def test_what_are_no_classes_of_nodes_is_refused_in_one_line(shape, says):
    with pytest.raises(mg.IncompatibleError, match=says) as error:
        mg.predict(Returning(shape).eval(), csbm(**SIZE))
    assert "\n" not in str(error.value)


def test_regression_is_refused_by_the_labels_of_the_source():
    source = csbm(**SIZE)
    net = Returning(lambda out, e: out).eval()
    for y in (torch.randn(400), torch.randn(400, 3)):
        source.y = y
        with pytest.raises(mg.InvalidGraphError, match=r"graph.y: got torch.float32.*regression"):
            mg.summarise_source(net, source)
        with pytest.raises(mg.InvalidGraphError, match="regression is not supported"):
            mg.adapt(net, csbm(**SIZE), source=source)


def test_a_graph_without_edge_index_is_read_from_its_matrix():
    net, source, target = case("torch.sparse")
    bare = target.clone()
    del bare.edge_index
    result = mg.adapt(net, bare, source=source)
    torch.testing.assert_close(
        result.probs_before, KINDS["torch.sparse"].answer(net, target), rtol=0, atol=1e-6
    )
    assert accuracy(result.probs, target) > accuracy(result.probs_before, target)


class WithEmbedding(nn.Module):
    """Returns a hidden layer before its logits, or after them."""

    def __init__(self, first=True):
        super().__init__()
        self.net, self.first = case("GCN")[0], first

    def forward(self, x, edge_index):
        hidden, logits = x @ torch.ones(20, 7), self.net(x, edge_index)
        return (hidden, logits) if self.first else (logits, hidden)


@pytest.mark.parametrize("first", [True, False])
def test_logits_are_told_from_an_embedding_by_the_classes_of_the_source(first):
    _, source, target = case("GCN")
    net = WithEmbedding(first).eval()
    summary = mg.summarise_source(net, source)
    assert len(summary.class_prior) == 2
    result = mg.adapt(net, target, source=summary)
    expected = KINDS["GCN"].answer(net.net, target)
    torch.testing.assert_close(result.probs_before, expected, rtol=0, atol=1e-6)


def test_an_embedding_is_no_answer_and_unseen_classes_are():
    class Wide(nn.Module):
        def __init__(self, shift):
            super().__init__()
            self.net, self.shift = case("GCN")[0], shift

        def forward(self, x, edge_index):
            logits = self.net(x, edge_index)
            return torch.cat([logits, logits.new_full((len(x), 62), self.shift)], 1)

    _, source, _ = case("GCN")
    says = r"Wide has 64 outputs, y has classes 0 to 1, .* return an embedding first\?"
    with pytest.raises(mg.IncompatibleError, match=says):
        mg.summarise_source(Wide(50.0).eval(), source)
    assert len(mg.summarise_source(Wide(-50.0).eval(), source).class_prior) == 64


@pytest.mark.parametrize("layout", [torch.sparse_csr, torch.sparse_coo])
def test_sparse_features_reach_networks_that_need_dense_ones(layout):
    net, source, target = case("GraphSAGE")
    sparse = target.clone()
    sparse.x = target.x.to_sparse(layout=layout)
    given = sparse.x
    found = mg.adapt(net, sparse, source=mg.summarise_source(net, source))
    torch.testing.assert_close(
        found.probs_before, KINDS["GraphSAGE"].answer(net, target), rtol=0, atol=1e-6
    )
    assert sparse.x is given


@pytest.mark.parametrize("name", ["GCN", "GraphSAGE", "GAT"])
def test_another_number_of_features_is_said_before_the_network_fails(name):
    net, source, target = case(name)
    other = target.clone()
    other.x = target.x[:, 1:]
    says = "graph.x: got 19 features; allowed: 20, as the layer .* takes"
    with pytest.raises(mg.InvalidGraphError, match=says):
        mg.predict(net, other)
    summary = mg.summarise_source(net, source)
    says = "graph.x: got 19 features; allowed: 20, as the source summary says"
    with pytest.raises(mg.InvalidGraphError, match=says):
        mg.adapt(net, other, source=summary)


def test_what_needs_a_summary_says_so():
    net, _, target = case("GCN")
    assert "cannot be estimated" in repr(mg.estimate(net, target))
    with pytest.raises(mg.IncompatibleError, match=r"give source=mg.summarise_source"):
        mg.diagnose(net, target)


def test_pygs_adj_t_is_made_where_it_is_asked_for():
    class Conv(nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = nn.Linear(20, 2)

        def forward(self, x, adj_t):
            return adj_t @ self.lin(x)

    torch.manual_seed(0)
    net, graph = Conv().eval(), csbm(**SIZE)
    sums = torch.zeros(400, 2).index_add_(
        0, graph.edge_index[1], net.lin(graph.x)[graph.edge_index[0]]
    )
    found = mg.predict(net, graph).probs
    torch.testing.assert_close(found, sums.softmax(1).detach(), rtol=0, atol=1e-5)
