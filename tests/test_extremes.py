"""Finite graphs with extreme numbers get finite answers, or one line that refuses them."""

import warnings
from functools import cache

import pytest
import torch
from torch_geometric.data import Data

import matcha_gnn as mg
from matcha_gnn.gamma.methods import METHODS
from matcha_gnn.gamma.models import BACKBONES

NODES, FEATURES, CLASSES = 40, 5, 3
QUICK = {"gtrans": {"epochs": 5}}
NEED_ARRAYS = [mg.AdaNPC(), mg.GraphPatcher(hidden_channels=8, iterations=20)]


def plain(dtype=torch.float32, seed=1):
    shares = [1 / CLASSES] * CLASSES
    options = {"degree": 3, "homophily": 0.6, "signal": 3.0, "shares": shares}
    graph = mg.datasets.csbm(NODES, FEATURES, **options, seed=seed)
    graph.x = graph.x.to(dtype)
    return graph


def largest(x):
    return torch.finfo(x.dtype).max


def outlier(by):
    return lambda x: torch.cat([by * x[:1], x[1:]])


FEATURES_OF = {
    **{f"{by:g}": lambda x, by=by: by * x for by in (1e6, 1e15, 1e30, 1e-15, 1e-30)},
    "largest": lambda x: x.sign() * largest(x),
    "half of the largest": lambda x: x.sign() * largest(x) / 2,
    "denormal": lambda x: x.sign() * torch.finfo(x.dtype).tiny / 8,
    "zero": torch.zeros_like,
    "ones": torch.ones_like,
    "equal rows": lambda x: x[:1].expand_as(x).contiguous(),
    "equal but for rounding": lambda x: 1 + torch.finfo(x.dtype).eps * x.round(),
    "rank one": lambda x: x[:, :1].expand_as(x).contiguous(),
    "an outlier of 1e6": outlier(1e6),
    "an outlier of 1e30": outlier(1e30),
    "far from zero": lambda x: 1e7 + x,
}
EDGES_OF = {
    "no edges": torch.zeros(2, 0, dtype=torch.long),
    "loops alone": torch.arange(NODES).repeat(2, 1),
    "one edge, a thousand times": torch.tensor([[0], [1]]).repeat(1, 1000),
    "a hub": torch.stack([torch.arange(1, NODES), torch.zeros(NODES - 1, dtype=torch.long)]),
    "all pairs": torch.ones(NODES, NODES).nonzero().T,
}
WEIGHTS_OF = {f"weights of {w:g}": torch.tensor(w).double() for w in (0, 1e-300, 1e-30, 1e30, 1e38)}
SIZES_OF = {"one node": 1, "two nodes": 2}
CHANGES = [*FEATURES_OF, *EDGES_OF, *WEIGHTS_OF, "weights from 1e-30 to 1e30", *SIZES_OF]


def changed(change, dtype):
    graph = plain(dtype)
    edges = graph.num_edges
    if change in FEATURES_OF:
        graph.x = FEATURES_OF[change](graph.x)
    elif change in EDGES_OF:
        graph.edge_index = EDGES_OF[change]
    elif change in WEIGHTS_OF:
        graph.edge_weight = WEIGHTS_OF[change].repeat(edges)
    elif change in SIZES_OF:
        nodes = SIZES_OF[change]
        graph = Data(x=graph.x[:nodes], y=graph.y[:nodes], edge_index=torch.zeros(2, 0).long())
    else:
        graph.edge_weight = torch.logspace(-30, 30, edges, dtype=torch.float64)
    assert graph.x.isfinite().all()
    return graph


@cache
def trained(name, dtype):
    model = BACKBONES[name](FEATURES, CLASSES, hidden_channels=6, K=2).to(dtype)
    mg.fit(model, plain(dtype, seed=0), epochs=20, methods=NEED_ARRAYS)
    return model


def fitted(name, graph):
    model = BACKBONES[name](FEATURES, CLASSES, hidden_channels=6, K=2).to(graph.x.dtype)
    mg.fit(model, graph, epochs=3)
    return all(bool(part.isfinite().all()) for part in model.state_dict().values())


def is_finite(result):
    for probs in (result.probs, result.probs_before):
        assert probs.isfinite().all()
        assert (probs >= 0).all()
        assert (probs.sum(1) - 1).abs().max() < 1e-4
    if isinstance(result, mg.MatchaResult):
        assert result.gamma.isfinite().all()
        assert 0 <= result.pic_before <= 1
        assert 0 <= result.pic_after <= 1
    return True


def runs(graph, turn):
    """What is tried with a graph: of base methods every third, in turn."""
    dtype = graph.x.dtype
    model = trained("gprgnn", dtype)
    for name, kind in list(METHODS.items())[turn % 3 :: 3]:
        method = kind(**QUICK.get(name, {}))
        strategy = mg.Matcha(method, rounds=3)
        yield f"{name} in Matcha", lambda s=strategy: is_finite(mg.adapt(model, graph, strategy=s))
    for strategy in (mg.ClosedForm(), mg.T3A()):
        yield strategy, lambda s=strategy: is_finite(mg.adapt(model, graph, strategy=s))
    for name in BACKBONES:
        yield f"{name}, default", lambda n=name: is_finite(mg.adapt(trained(n, dtype), graph))
        yield f"{name}, fit", lambda n=name: fitted(n, graph)
    yield "diagnose", lambda: bool(mg.diagnose(model, graph).reason)
    yield "estimate", lambda: mg.estimate(model, graph).high <= 1


# In turn; what overflows in float32 need not in float64.
DTYPES = [torch.float32 if n % 3 else torch.float64 for n in range(len(CHANGES))]


@pytest.mark.parametrize(("change", "dtype"), list(zip(CHANGES, DTYPES, strict=True)))
def test_an_extreme_graph_has_finite_answers_or_is_refused_in_one_line(change, dtype):
    graph, refusals, done = changed(change, dtype), [], 0
    for name, run in runs(graph, CHANGES.index(change)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                assert run(), name
                done += 1
            except mg.MatchaError as error:
                refusals.append(str(error))
    assert not any("\n" in said for said in refusals)
    assert done > 0 or change == "largest"


@pytest.mark.parametrize("backbone", BACKBONES)
def test_one_node_is_not_enough_to_train_on(backbone):
    with pytest.raises(mg.InvalidGraphError, match=r"^graph\.x: got 1 node; allowed: at least 2"):
        mg.fit(BACKBONES[backbone](5, 3), changed("one node", torch.float32))
