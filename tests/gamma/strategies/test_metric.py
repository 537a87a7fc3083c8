"""The guard decides by the caller's metric; a person can take another candidate, on the record."""

import dataclasses
import math
import re
from dataclasses import replace

import pytest
import torch

import matcha_gnn as mg
from matcha_gnn.evidence import Interval
from matcha_gnn.metrics import evaluate
from matcha_gnn.result import Decision
from matcha_paper.studies.networks import CASES, TARGET_SEED
from matcha_paper.studies.plain_networks import KINDS, trained

CLASSES = ("licit", "fraud")


def fraud(seed):
    """A network, a graph of which one node in twenty is of the rare class, and its summary."""
    kind, case = KINDS["SGConv"], CASES["fraud"]
    source, target = case.source.draw(seed), case.target.draw(TARGET_SEED + seed)
    chance = torch.rand(source.num_nodes, generator=torch.Generator().manual_seed(seed))
    source.train_mask = chance < 0.5
    net = trained(kind, source, 2, seed)
    return net, target, mg.summarise_source(net, source, trained=source.train_mask)


@pytest.fixture(scope="module")
def rare():
    return fraud(1)


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
    assert by_f1.configuration()["metric"] == "f1"
    assert by_f1.configuration()["positive"] == 1


def test_expected_f1_is_close_to_the_true_one(rare, by_f1):
    _, target, _ = rare
    for one in by_f1.decision.candidates:
        true = by_f1.goal.score(target.y, one.probs)
        assert one.goal.value == pytest.approx(true, abs=0.08)
        assert one.goal.low <= true <= one.goal.high
        assert one.gain.value == pytest.approx(
            one.goal.value - by_f1.decision.candidates[0].goal.value
        )


def test_the_summary_names_metric_and_class_with_an_interval(by_f1):
    before, after = by_f1.decision.candidates[0], by_f1.decision.taken
    assert by_f1.summary().startswith(
        f"Adapted (pool for F1 of fraud). Estimated F1 of fraud: {before.goal.value:.1%} → "
        f"{after.goal.value:.1%} (90% interval {after.goal.low:.1%} to {after.goal.high:.1%}). "
        f"Estimated accuracy: {before.accuracy.value:.1%} → {after.accuracy.value:.1%}."
    )


def test_classes_have_estimates_that_add_up(rare, by_f1):
    """F1 is close where precision and recall are not: their errors cancel."""
    _, target, _ = rare
    scores = by_f1.decision.taken.class_estimates()
    assert float(scores.f1[1]) == pytest.approx(by_f1.decision.taken.goal.value)
    found = (by_f1.labels == 1) & (target.y == 1)
    assert float(scores.precision[1]) == pytest.approx(
        float(found.sum() / (by_f1.labels == 1).sum()), abs=0.2
    )
    assert float(scores.recall[1]) == pytest.approx(
        float(found.sum() / (target.y == 1).sum()), abs=0.1
    )


def test_balanced_accuracy_finds_the_rare_class(rare):
    net, target, summary = rare
    result = mg.adapt(net, target, source=summary, metric="balanced_accuracy")
    scores = evaluate(result.labels, target.y)
    assert scores.balanced_accuracy > 0.9
    taken = result.decision.taken
    assert taken.goal.value == pytest.approx(scores.balanced_accuracy, abs=0.08)
    again = mg.predict(result.model, target).probs
    torch.testing.assert_close(again, result.probs, atol=1e-5, rtol=1e-4)


def test_a_metric_of_ones_own_decides(rare):
    net, target, summary = rare

    def saved(truth, probs):
        """What a found fraud saves, less what a check costs."""
        checked = probs.argmax(1) == 1
        return float(50 * (checked & (truth == 1)).sum() - 2.5 * checked.sum())

    result = mg.adapt(net, target, source=summary, metric=saved)
    before, after = (saved(target.y, p) for p in (result.probs_before, result.probs))
    assert after > before
    assert "Estimated saved: " in result.summary()
    said = result.summary().partition("Estimated accuracy")[0]
    assert re.search(
        r"Estimated saved: -?[\d.]+ → [\d.]+ \(90% interval -?[\d.]+ to [\d.]+\)\. $", said
    )
    kept = mg.adapt(net, target, source=summary, metric=saved, strategy=mg.Guarded(min_gain=1e6))
    assert kept.status is mg.Status.KEPT_SOURCE
    assert "below the threshold of 1e+06." in kept.summary()


def test_the_threshold_may_be_a_share_of_the_error(rare):
    net, target, summary = rare
    for share, status in ((0.1, mg.Status.ADAPTED), (0.9, mg.Status.KEPT_SOURCE)):
        strategy = mg.Guarded(min_gain=share, of_error=True)
        result = mg.adapt(net, target, source=summary, strategy=strategy)
        error = 1 - result.decision.candidates[0].goal.value
        assert result.decision.threshold == pytest.approx(share * error)
        assert result.status is status


def test_taking_by_hand_is_on_the_record(by_f1, tmp_path):
    result = by_f1.take("belief")
    taken = next(one for one in by_f1.decision.candidates if one.name == "belief")
    assert torch.equal(result.probs, taken.probs)
    assert result.model is taken.model
    assert result.decision.chosen == "belief"
    assert result.decision.by_hand == by_f1.decision.chosen
    assert result.status is mg.Status.ADAPTED
    assert result.summary().startswith(
        "Taken by hand: belief, in place of pool for F1 of fraud. Estimated F1 of fraud: "
    )
    assert by_f1.decision.by_hand == ""
    assert math.isfinite(result.pic_after)
    source = by_f1.decision.candidates[0]
    assert result.trace.expected_accuracy == [source.expected_accuracy, taken.expected_accuracy]
    back = result.take("source")
    assert back.status is mg.Status.KEPT_SOURCE
    assert torch.equal(back.probs, by_f1.probs_before)
    assert back.decision.by_hand == by_f1.decision.chosen
    assert by_f1.take(by_f1.decision.chosen) is by_f1


def test_a_name_that_no_candidate_has_is_refused_in_one_line(by_f1):
    names = ", ".join(one.name for one in by_f1.decision.candidates)
    with pytest.raises(mg.InvalidArgumentError) as error:
        by_f1.take("best")
    assert str(error.value) == f"name: got 'best'; allowed: {names}"
    plain = mg.predict(by_f1.decision.candidates[0].model, by_f1.graph)
    with pytest.raises(
        mg.IncompatibleError, match="take: there are no candidates: strategy 'none'"
    ):
        plain.take("belief")
    alone = replace(by_f1, decision=replace(by_f1.decision, candidates=(), obstacle="no edges"))
    with pytest.raises(mg.IncompatibleError, match="there are no candidates: no edges"):
        alone.take("belief")


def test_an_estimate_that_fell_is_an_alarm_with_the_figure(by_f1):
    source, *others = by_f1.decision.candidates
    lost = source.goal._replace(value=source.goal.value - 0.05)
    worse = dataclasses.replace(
        others[0], name="worse", goal=lost, gain=Interval(-0.05, -0.06, -0.04)
    )
    decision = replace(by_f1.decision, candidates=(source, worse))
    result = replace(by_f1, decision=replace(decision, chosen="source")).take("worse")
    assert result.severity == "alarm"
    (alarm,) = result.alarms
    assert alarm == (
        f"Estimated F1 of fraud fell from {source.goal.value:.1%} to {lost.value:.1%} "
        "(-5.0 points)."
    )
    assert result.summary().startswith(alarm)


def test_taken_by_hand_below_the_threshold_is_a_warning(by_f1):
    decision = replace(by_f1.decision, threshold=0.9)
    result = replace(by_f1, decision=decision).take("belief")
    assert result.severity == "warning"
    assert "below the threshold of 90." in result.summary()


def test_alarms_call_classes_by_their_names(by_f1):
    emptied = replace(by_f1, probs=torch.eye(2)[:1].expand_as(by_f1.probs))
    assert re.search(r"^Class fraud had \d\.\d% of nodes before and has none", emptied.alarms[0])
    assert emptied.severity == "alarm"


def test_a_graph_may_bring_the_names_of_its_classes(rare):
    net, target, summary = rare
    named = target.clone()
    named.class_names = ["licit", "fraud"]
    result = mg.adapt(net, named, source=summary, metric="f1")
    assert result.classes == CLASSES
    assert result.goal.title == "F1 of fraud"
    assert mg.predict(net, target).classes == ("0", "1")
    questions = result.ask(3)
    assert questions.classes == CLASSES


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"classes": ("a", "b", "c")}, "classes: got ('a', 'b', 'c'); allowed: 2 different names"),
        ({"classes": ("a", "a")}, "classes: got ('a', 'a'); allowed: different names"),
        ({"classes": "ab"}, "classes: got 'ab'; allowed: different names"),
        (
            {"metric": "f1", "positive": 2},
            "positive: got 2; allowed: the class that f1 is of: 0, 1",
        ),
        (
            {"metric": "f1", "strategy": "matcha"},
            "metric: got 'f1'; allowed: accuracy with strategy 'matcha', which compares no",
        ),
        (
            {"metric": max, "strategy": mg.Guarded(min_gain=0.1, of_error=True)},
            "of_error: got True; allowed: False with a metric of your own",
        ),
        ({"strategy": mg.Guarded(min_gain=2)}, "min_gain: got 2; allowed: a number < 1"),
        ({"strategy": mg.Guarded(min_gain=1)}, "min_gain: got 1; allowed: a number < 1"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(rare, given, said):
    net, target, summary = rare
    with pytest.raises(mg.InvalidArgumentError) as error:
        mg.adapt(net, target, source=summary, **given)
    assert str(error.value).startswith(said)


def test_refusals_name_figures_and_no_unguarded_way(by_f1):
    kept = replace(by_f1.decision, chosen="source", threshold=0.9)
    best = max(kept.candidates[1:], key=lambda one: one.gain.low)
    assert kept.summary().endswith(
        f"Best candidate ({best.name}): expected {100 * best.gain.value:+.1f} points, at least "
        f"{100 * best.gain.low:+.1f}; below the threshold of 90."
    )
    nothing = Decision("source", kept.candidates, None, "cannot tell")
    for said in (kept.summary(), nothing.summary()):
        assert not re.search(r"(?i)matcha|strategy|unguarded|protect", said)
