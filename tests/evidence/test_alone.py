"""Evidence from the network and the target alone."""

import pytest
import torch
from torch_geometric.data import Data

import matcha_gnn as mg
from matcha_gnn.errors import NoEvidenceError
from matcha_gnn.evidence.alone import FEWEST_NODES, stand_in_summary


def world(homophily: float, seed: int, **options: float) -> Data:
    return mg.datasets.csbm(3000, 64, homophily=homophily, signal=1.5, seed=seed, **options)


@pytest.fixture(scope="module")
def model() -> mg.Backbone:
    model = mg.GPRGNN(64, 2)
    mg.fit(model, world(0.85, 0), epochs=60)
    model.source = None
    return model


def share_right(labels: torch.Tensor, graph: Data) -> float:
    return float((labels == graph.y).double().mean())


def test_a_shift_of_homophily_is_mended_without_a_source(model):
    target = world(0.2, 1)
    result = mg.adapt(model, target)
    assert share_right(result.labels, target) > share_right(result.labels_before, target) + 0.05
    assert "no source summary" in result.summary()
    assert model.source is None


def test_the_taken_model_answers_the_next_graph(model):
    target, following = world(0.2, 1), world(0.2, 3)
    taken = mg.adapt(model, target).model
    after, before = (each(following).argmax(1) for each in (taken, model))
    assert share_right(after, following) > share_right(before, following) + 0.05


def test_accuracy_is_not_estimated_without_a_source(model):
    found = mg.estimate(model, world(0.2, 1))
    assert "cannot be estimated" in found.reason


def test_few_nodes_keep_the_source(model):
    target = mg.datasets.csbm(150, 64, homophily=0.2, signal=1.5, seed=1)
    result = mg.adapt(model, target)
    assert result.status == "kept source"
    assert f"at least {FEWEST_NODES}" in result.obstacle


def test_neighbours_that_share_more_than_classes_keep_the_source(model):
    target = world(0.85, 4)
    sender, receiver = target.edge_index
    # What neighbours have in common is added to both: features smoothed over edges.
    sums = torch.zeros_like(target.x).index_add_(0, receiver, target.x[sender])
    target.x = target.x + 0.5 * sums
    graph = mg.unlabelled(target)
    network = model.probs(graph)
    with pytest.raises(NoEvidenceError, match="share more than their classes"):
        stand_in_summary(graph, network)
    assert mg.adapt(model, target).status == "kept source"
