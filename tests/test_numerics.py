"""Degenerate numbers: every method, guarded or not, gives finite answers and no raw exception."""

from functools import cache

import pytest
import torch
from torch_geometric.data import Data

import matcha_gnn as mg
from matcha_gnn.errors import NoEvidenceError
from matcha_gnn.gamma.methods import METHODS

NODES, FEATURES, CLASSES = 80, 6, 3


def plain(seed: int) -> Data:
    settings = {"homophily": 0.7, "degree": 3, "signal": 3.0}
    return mg.datasets.csbm(NODES, FEATURES, shares=(0.4, 0.3, 0.3), seed=seed, **settings)


def with_features(change):
    def make(seed: int) -> Data:
        graph = plain(seed)
        graph.x = change(graph.x)
        return graph

    return make


def one_outlier(x):
    x[0] *= 1e6
    return x


def repeated_column(x):
    return x[:, :1].expand(-1, FEATURES).contiguous()


def one_class(seed: int) -> Data:
    graph = plain(seed)
    graph.y = torch.zeros_like(graph.y)
    return graph


def no_edges(seed: int) -> Data:
    graph = plain(seed)
    graph.edge_index = graph.edge_index[:, :0]
    return graph


KINDS = {
    "plain": plain,
    "constant": with_features(torch.ones_like),
    "zero": with_features(torch.zeros_like),
    "outlier": with_features(one_outlier),
    "huge": with_features(lambda x: 1e5 * x),
    "tiny": with_features(lambda x: 1e-8 * x),
    "rank one": with_features(repeated_column),
    "one class": one_class,
    "no edges": no_edges,
}
NEED_ARRAYS = ("adanpc", "graphpatcher")


@cache
def trained(kind: str, dtype: torch.dtype) -> mg.Backbone:
    graph = KINDS[kind](0)
    graph.x = graph.x.to(dtype)
    model = mg.GPRGNN(FEATURES, CLASSES, hidden_channels=8, K=3).to(dtype)
    mg.fit(model, graph, epochs=10, methods=[METHODS[name]() for name in NEED_ARRAYS])
    return model


def finite(result: mg.Adaptation) -> bool:
    return bool(result.probs.isfinite().all() and result.gamma.isfinite().all())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", METHODS)
def test_degenerate_graphs_have_finite_answers(method, kind, dtype):
    graph = KINDS[kind](1)
    graph.x = graph.x.to(dtype)
    for source in {kind, "plain"}:
        for strategy in (mg.Guarded(), mg.Matcha(rounds=2)):
            result = mg.adapt(trained(source, dtype), graph, METHODS[method](), strategy)
            assert finite(result), (source, strategy)


@pytest.mark.parametrize("kind", KINDS)
def test_degenerate_graphs_have_a_closed_form_and_a_diagnosis(kind):
    model, graph = trained(kind, torch.float32), KINDS[kind](1)
    for loss in (mg.PIC(), mg.SURE()):
        result = mg.adapt(model, graph, strategy=mg.ClosedForm(loss))
        assert finite(result)
    if kind == "one class":
        with pytest.raises(NoEvidenceError, match="of one class"):
            mg.diagnose(model, graph)
    else:
        assert mg.diagnose(model, graph).reason


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("backbone", [mg.APPNP, mg.JKNet, mg.GCNII])
def test_other_backbones_take_degenerate_graphs(backbone, kind):
    model = backbone(FEATURES, CLASSES, hidden_channels=8, K=2)
    mg.fit(model, KINDS[kind](0), epochs=5)
    assert finite(mg.adapt(model, KINDS[kind](1)))
