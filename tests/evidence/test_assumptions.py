"""What breaks the evidence: each assumption of docs/method.md, and what happens without it."""

import numpy as np
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


def test_classes_that_are_not_linear_in_the_features_leave_little_to_the_probe():
    rng = np.random.default_rng(0)
    signs = rng.choice([-1.0, 1.0], (2000, 2))
    x = np.hstack([signs, np.zeros((2000, 6))]) + 0.3 * rng.standard_normal((2000, 8))
    y = torch.from_numpy((signs.prod(1) > 0).astype(np.int64))
    edges = mg.datasets.csbm(2000, 2, homophily=0.5, seed=0).edge_index
    graph = Data(torch.from_numpy(x).float(), edges, y=y)
    graph.train_mask = torch.from_numpy(rng.random(2000) < 0.6)
    net = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 2))
    steps = torch.optim.Adam(net.parameters(), lr=0.02)
    for _ in range(200):
        steps.zero_grad()
        logits = net(graph.x)[graph.train_mask]
        torch.nn.functional.cross_entropy(logits, y[graph.train_mask]).backward()
        steps.step()

    class Table(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = net

        def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
            return self.net(x)

    summary = mg.summarise_source(Table().eval(), graph)
    probe = summary.evidence.probe.logits(graph.x).argmax(1)
    assert share_right(probe, graph) < 0.6
    # The network decides the pool: [as it is, pool, (estimated, true)].
    assert float(summary.evidence.simulated[0, 3, 1]) > 0.95
    result = mg.adapt(Table().eval(), graph, source=summary)
    assert share_right(result.labels, graph) > share_right(result.labels_before, graph) - 0.01


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
