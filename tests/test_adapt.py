"""The default: it helps under shift, stays put without, by any metric, and says why."""

import re
from dataclasses import replace

import pytest
import torch

import matcha_gnn as mg
from matcha_gnn.evidence.posterior import Interval
from matcha_gnn.metrics import accuracy, evaluate
from matcha_paper.studies.networks import CASES, TARGET_SEED
from matcha_paper.studies.plain_networks import KINDS, trained

SIZE = {"num_nodes": 1500, "num_features": 64, "signal": 1.3}
THREE = {"num_nodes": 800, "num_features": 32, "signal": 2, "shares": (0.4, 0.3, 0.3)}
CLASSES = ("licit", "fraud")


@pytest.fixture(scope="module")
def model():
    trained = mg.GPRGNN(64, 2, hidden_channels=8, K=4)
    mg.fit(trained, mg.datasets.csbm(**SIZE, homophily=0.85, seed=0), epochs=120)
    return trained


def gain(result, graph):
    return accuracy(result.probs, graph.y) - accuracy(result.probs_before, graph.y)


def test_other_class_shares_are_seen(model):
    target = mg.datasets.csbm(**SIZE, homophily=0.1, shares=(0.85, 0.15), seed=4)
    result = mg.adapt(model, target)
    assert float(result.posterior.probs[:, 0].mean()) == pytest.approx(0.85, abs=0.06)
    assert gain(result, target) > 0.05


@pytest.mark.parametrize("homophily", [0.85, 0.2])
@pytest.mark.parametrize("unseen", ["an output too many", "not in the mask"])
def test_a_class_without_a_labelled_node_gives_finite_estimates(homophily, unseen):
    source = mg.datasets.csbm(**THREE, homophily=0.85, seed=0)
    target = mg.datasets.csbm(**THREE, homophily=homophily, seed=1)
    outputs, mask = (4, None) if unseen == "an output too many" else (3, source.y != 2)
    net = mg.GPRGNN(32, outputs)
    mg.fit(net, source, epochs=60, train_mask=mask)
    assert float(net.source.class_prior[-1]) == 0
    result = mg.adapt(net, target)
    assert "nan" not in result.summary()
    for one in result.candidates:
        assert 0 < one.accuracy.value < 1
        assert -1 < one.gain.low <= one.gain.value < 1
    assert result.posterior.probs.isfinite().all()
    if unseen == "an output too many":
        assert result.taken.accuracy.value == pytest.approx(
            accuracy(result.probs, target.y), abs=0.04
        )


def test_what_cannot_be_judged_keeps_the_source():
    source = mg.datasets.csbm(300, 8, seed=0)
    net = mg.GPRGNN(8, 2)
    mg.fit(net, source, epochs=20, train_mask=source.y == 0)
    with pytest.warns(mg.NotAdaptedWarning, match="nodes of the source graph are of one class"):
        result = mg.adapt(net, mg.datasets.csbm(300, 8, seed=1))
    assert result.status == "kept source"

    source = mg.datasets.csbm(**THREE, homophily=0.85, seed=0)
    net = mg.GPRGNN(32, 3)
    mg.fit(net, source, epochs=60)
    source.y[source.y == 2] = -1
    mg.summarise_source(net, source, trained=source.y >= 0)
    with pytest.warns(mg.NotAdaptedWarning, match="class 2 has no labelled node in the stat"):
        result = mg.adapt(net, mg.datasets.csbm(**THREE, homophily=0.2, seed=1))
    assert result.status == "kept source"
    assert result.probs.equal(result.probs_before)


def test_class_shares_that_jump_are_an_alarm():
    """A true change of class shares: the jump is right, and a person has to know of it."""
    options = {"num_nodes": 1500, "num_features": 32, "signal": 1.3}
    source = mg.datasets.csbm(**options, homophily=0.85, shares=(0.95, 0.05), seed=0)
    target = mg.datasets.csbm(**options, homophily=0.5, shares=(0.05, 0.95), seed=1)
    net = mg.GPRGNN(32, 2)
    mg.fit(net, source, epochs=100)
    result = mg.adapt(net, target)
    assert gain(result, target) > 0.5
    assert result.severity == "alarm"
    (alarm,) = result.alarms
    assert result.summary().startswith(alarm)


# Other metrics


@pytest.fixture(scope="module")
def rare():
    """A network, a graph of which one node in twenty is of the rare class, and its summary."""
    kind, case = KINDS["SGConv"], CASES["fraud"]
    source, target = case.source.draw(1), case.target.draw(TARGET_SEED + 1)
    chance = torch.rand(source.num_nodes, generator=torch.Generator().manual_seed(1))
    source.train_mask = chance < 0.5
    net = trained(kind, source, 2, 1, epochs=60)
    return net, target, mg.summarise_source(net, source, trained=source.train_mask)


@pytest.fixture(scope="module")
def by_f1(rare):
    net, target, summary = rare
    return mg.adapt(net, target, source=summary, metric="f1", classes=CLASSES)


def test_by_f1_a_better_model_is_taken_than_by_accuracy(rare, by_f1):
    net, target, summary = rare
    by_accuracy = mg.adapt(net, target, source=summary)
    scores = [by_f1.goal.score(target.y, result.probs) for result in (by_f1, by_accuracy)]
    assert scores[0] > scores[1] + 0.03
    assert by_f1.goal.score(target.y, by_f1.probs_before) < 0.2
    assert by_f1.severity == "good"


def test_expected_f1_is_close_to_the_true_one(rare, by_f1):
    for one in by_f1.candidates:
        true = by_f1.goal.score(rare[1].y, one.probs)
        assert one.goal.value == pytest.approx(true, abs=0.08)
        assert one.goal.low <= true <= one.goal.high


def test_classes_have_estimates_that_add_up(rare, by_f1):
    """F1 is close where precision and recall are not: their errors cancel."""
    truth, given = rare[1].y == 1, by_f1.labels == 1
    scores = by_f1.taken.class_estimates()
    # The estimate is corrected by what was too high on parts of the source.
    assert float(scores.f1[1]) == pytest.approx(by_f1.taken.goal.value, abs=0.05)
    hits = float((given & truth).sum())
    assert float(scores.precision[1]) == pytest.approx(hits / float(given.sum()), abs=0.2)
    assert float(scores.recall[1]) == pytest.approx(hits / float(truth.sum()), abs=0.1)


def test_balanced_accuracy_finds_the_rare_class(rare):
    net, target, summary = rare
    result = mg.adapt(net, target, source=summary, metric="balanced_accuracy")
    scores = evaluate(result.labels, target.y)
    assert scores.balanced_accuracy > 0.9
    assert result.taken.goal.value == pytest.approx(scores.balanced_accuracy, abs=0.08)
    torch.testing.assert_close(result.model.probs(mg.unlabelled(target)), result.probs)


def test_an_estimate_that_fell_is_an_alarm_with_the_figure(by_f1):
    source, other, *_ = by_f1.candidates
    lost = source.goal._replace(value=source.goal.value - 0.05)
    worse = replace(other, name="worse", goal=lost, gain=Interval(-0.05, -0.06, -0.04))
    result = replace(by_f1, candidates=(source, worse), chosen="source").take("worse")
    assert result.severity == "alarm"
    fell = f"Estimated F1 of fraud fell from {source.goal.value:.1%} to {lost.value:.1%}"
    assert result.alarms == (f"{fell} (-5.0 points).",)


def test_a_graph_may_bring_the_names_of_its_classes(rare):
    net, target, summary = rare
    named = target.clone()
    named.class_names = ["licit", "fraud"]
    result = mg.adapt(net, named, source=summary, metric="f1")
    assert result.classes == CLASSES
    assert result.goal.title == "F1 of fraud"
    assert mg.predict(net, target).classes == ("0", "1")
    assert result.ask(3).classes == CLASSES
    emptied = replace(result.taken, probs=torch.eye(2)[:1].expand_as(result.probs))
    result = replace(result, candidates=(result.candidates[0], emptied), chosen=emptied.name)
    assert re.search(r"^Class fraud had \d\.\d% of nodes before and has none", result.alarms[0])
