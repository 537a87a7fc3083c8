"""The shift card: what it estimates, what it advises, and that no label enters."""

import copy
from dataclasses import replace

import pytest
import torch
from matcha_gnn.diagnosis import shift_card

import matcha_gnn as mg

SIZE = {"num_nodes": 1500, "num_features": 64, "signal": 1.3}


@pytest.fixture(scope="module")
def model():
    trained = mg.GPRGNN(64, 2, hidden_channels=8, K=4)
    mg.fit(trained, mg.datasets.csbm(**SIZE, homophily=0.85, seed=0), epochs=120)
    return trained


def test_a_shift_of_structure_is_seen(model):
    card = mg.diagnose(model, mg.datasets.csbm(**SIZE, homophily=0.1, degree=4, seed=1))
    assert card.advice == "adapt"
    assert card.homophily[1] == pytest.approx(0.1, abs=0.08)
    assert card.degree[1] == pytest.approx(4, abs=0.3)
    assert card.features == "same"
    assert card.drift == 0
    assert card.expected_accuracy[1] > card.expected_accuracy[0]


def test_no_shift_is_left_alone(model):
    card = mg.diagnose(model, mg.datasets.csbm(**SIZE, homophily=0.85, seed=3))
    assert card.advice == "leave it"
    assert "Kept the source model" in card.reason


def test_an_offset_of_features_is_measured(model):
    card = mg.diagnose(model, mg.datasets.csbm(**SIZE, homophily=0.85, shift=1.0, seed=3))
    assert card.features == "offset"
    assert card.drift > 0.3


def test_a_model_without_offset_is_referred_to_other_methods():
    deep = mg.GCNII(64, 2, hidden_channels=8, K=2)
    mg.fit(deep, mg.datasets.csbm(**SIZE, homophily=0.85, seed=0), epochs=120)
    target = mg.datasets.csbm(**SIZE, homophily=0.85, shift=1.5, seed=1)
    card = mg.diagnose(deep, target)
    assert card.features in ("offset", "both")
    assert card.advice == "adapt", "a candidate is expected to help"
    result = mg.adapt(deep, target)
    kept = replace(result.decision, chosen="source")
    assert "Tent or T3A" in shift_card(deep, deep.source, result, kept).advice


def test_labels_are_not_read(model):
    graph = mg.datasets.csbm(**SIZE, homophily=0.1, seed=4)
    blind = copy.copy(graph)
    del blind.y
    seen, unseen = mg.diagnose(model, graph), mg.diagnose(model, blind)
    assert seen.reason == unseen.reason
    assert torch.equal(seen.class_edges[1], unseen.class_edges[1])


def test_the_metric_decides_the_advice_and_is_estimated():
    skewed = {"num_features": 32, "degree": 6, "signal": 1.5, "homophily": 0.8}
    model = mg.GPRGNN(32, 2, hidden_channels=8, K=4)
    mg.fit(model, mg.datasets.csbm(2000, **skewed, shares=(0.95, 0.05), seed=0), epochs=100)
    target = mg.datasets.csbm(2000, **skewed, shares=(0.85, 0.15), seed=1)
    names = ["fine", "fraud"]
    card = mg.diagnose(model, target, metric="f1", positive="fraud", classes=names)
    result = mg.adapt(model, target, metric="f1", positive="fraud", classes=names)
    goals = [each.goal for each in result.decision.candidates]
    assert card.metric == "F1 of fraud"
    assert card.expected == (goals[0], max(goals, key=lambda goal: goal.value))
    assert card.expected[0].low <= card.expected[0].value <= card.expected[0].high
    assert card.reason == result.decision.summary()
    assert (card.advice == "adapt") == (result.status is mg.Status.ADAPTED)
    assert card.expected_accuracy[0] == result.decision.candidates[0].expected_accuracy
    with pytest.raises(mg.InvalidArgumentError, match="metric"):
        mg.diagnose(model, target, metric="recall")


def test_without_a_metric_accuracy_is_expected(model):
    card = mg.diagnose(model, mg.datasets.csbm(**SIZE, homophily=0.1, seed=5))
    assert card.metric == "accuracy"
    assert card.expected[0].value == card.expected_accuracy[0] == card.estimate.value
    assert card.expected[1].value == card.expected_accuracy[1]


def test_without_a_source_summary_it_is_refused():
    model = mg.GPRGNN(64, 2)
    mg.fit(model, mg.datasets.csbm(2000, 64, homophily=0.9, signal=2, seed=0), epochs=50)
    model.source = None
    target = mg.datasets.csbm(2000, 64, homophily=0.1, signal=2, seed=1)
    assert mg.adapt(model, target).status is mg.Status.ADAPTED
    with pytest.raises(mg.IncompatibleError, match="summarise_source"):
        mg.diagnose(model, target)
    with pytest.raises(mg.IncompatibleError, match="summarise_source"):
        mg.diagnose(mg.GPRGNN(8, 2), mg.datasets.csbm(100, 8))
