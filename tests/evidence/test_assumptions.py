"""What breaks the evidence: each assumption of docs/method.md, and what happens without it."""

import pytest
import torch
from torch_geometric.data import Data

import matcha_gnn as mg


def share_right(labels: torch.Tensor, graph: Data) -> float:
    return float((labels == graph.y).double().mean())


@pytest.fixture(scope="module")
def source() -> Data:
    return mg.datasets.csbm(2000, 64, homophily=0.85, signal=1.5, seed=0)


@pytest.fixture(scope="module")
def model(source) -> mg.Backbone:
    model = mg.GPRGNN(64, 2)
    mg.fit(model, source, epochs=60)
    return model


def test_classes_that_look_like_each_other_on_the_target_are_not_noticed(model):
    target = mg.datasets.csbm(2000, 64, homophily=0.85, signal=1.5, seed=1)
    target.y = 1 - target.y
    found = mg.estimate(model, target)
    truth = share_right(mg.predict(model, target).labels, target)
    assert found.low > truth + 0.5


def test_evidence_that_is_shared_by_neighbours_gets_less_weight(source):
    shared = source.clone()
    sender, receiver = shared.edge_index
    sums = torch.zeros_like(shared.x).index_add_(0, receiver, shared.x[sender])
    shared.x = shared.x + 0.7 * sums
    weights = []
    for graph in (source, shared):
        model = mg.GPRGNN(64, 2)
        mg.fit(model, graph, epochs=20)
        weights.append(model.source.evidence.evidence_weights)
    plain, less = ((1 - each.silent) * each.edges for each in weights)
    assert less < 0.8 * plain
