"""Alarms ring where they should, say what to do, and how often they ring by chance."""

import math
from dataclasses import replace

import pytest
import torch
from small_streams import day, source_graph, trained

import matcha_gnn as mg
from matcha_gnn.watching import AlarmKind, Step
from matcha_gnn.watching.alarms import Chance, Reference, alarms_of, chances_of

REFERENCE = Reference(0.8, 0.9, "100,000 nodes not trained on", 100_000, 0.02)
GOOD = {"accuracy": 0.9, "low": 0.85, "high": 0.95, "source_accuracy": 0.9, "chosen": "source"}
GOOD |= {"shares_moved": 0.01}


def rings(reference=REFERENCE, **changed):
    step = Step(1, "2026-05-01T00:00:00+00:00", **(GOOD | changed))
    return {a.kind: a.message for a in alarms_of(step, reference, chances_of(reference, ()))}


def test_nothing_rings_where_all_is_well():
    assert rings() == {}


def test_below_the_level():
    some = rings(accuracy=0.79, low=0.7, high=0.86)[AlarmKind.LEVEL]
    assert "79.0% (90% interval 70.0% to 86.0%), below the level of 80.0%" in some
    assert "--ask 20" in some
    all_below = rings(accuracy=0.7, low=0.65, high=0.75)[AlarmKind.LEVEL]
    assert all_below.endswith("Label nodes of this graph and train anew.")
    assert AlarmKind.LEVEL not in rings(REFERENCE._replace(level=None), accuracy=0.2)
    assert AlarmKind.LEVEL not in rings(accuracy=0.8)


def test_a_shift_that_nothing_mends():
    lost = rings(source_accuracy=0.82, accuracy=0.82)[AlarmKind.NOT_MENDED]
    assert "from 90.0% (measured on 100,000 nodes not trained on: at least 89.8%) to 82.0%" in lost
    assert "nothing that was tried is expected to be better" in lost
    partly = rings(source_accuracy=0.8, accuracy=0.84, chosen="pool")[AlarmKind.NOT_MENDED]
    assert "wins back 4.0 of 9.8 points" in partly
    assert AlarmKind.NOT_MENDED not in rings(source_accuracy=0.8, accuracy=0.86, chosen="pool")
    assert AlarmKind.NOT_MENDED not in rings(source_accuracy=0.86, accuracy=0.86)


def test_few_nodes_of_the_source_leave_room_for_chance():
    few = REFERENCE._replace(accuracy=1.0, held_out=39)
    assert few.floor == pytest.approx(0.05 ** (1 / 39))
    assert AlarmKind.NOT_MENDED not in rings(few, source_accuracy=0.9, accuracy=0.9)
    assert AlarmKind.NOT_MENDED in rings(few, source_accuracy=0.87, accuracy=0.87)
    assert Reference(None, 0.9).floor == 0.9
    assert Reference(None, 0.0, held_out=20).floor == 0.0


def test_the_error_of_class_shares_is_that_of_draws():
    prior = torch.tensor([0.5, 0.3, 0.2])
    summary = replace(trained().source, class_prior=prior, held_out=torch.tensor(60))
    draws = torch.distributions.Multinomial(60, prior).sample((20_000,)) / 60
    error = float((draws - prior).abs().sum(1).mean() / 2)
    assert Reference.of(None, summary).shares_error == pytest.approx(error, rel=0.03)


def test_class_shares_that_moved():
    said = rings(shares_moved=0.31, moved_most="class 2 went from 10.0% to 41.0% of nodes")
    assert "31 points from the source's: class 2 went from" in said[AlarmKind.CLASS_SHARES]
    assert AlarmKind.CLASS_SHARES not in rings(shares_moved=0.119)
    assert AlarmKind.CLASS_SHARES not in rings(shares_moved=0.3, obstacle="cannot tell")


def test_answers_are_needed():
    assert "30 points wide" in rings(low=0.66, high=0.96)[AlarmKind.ANSWERS]
    nothing = dict.fromkeys(("accuracy", "low", "high", "source_accuracy"), math.nan)
    said = rings(**nothing, shares_moved=math.nan, obstacle="cannot tell: too little is known")
    assert list(said) == [AlarmKind.ANSWERS]
    assert "cannot tell: too little is known. Ask for the labels" in said["answers"]


def test_every_kind_has_a_meaning():
    assert len({kind.meaning for kind in AlarmKind}) == len(AlarmKind) == 5


def test_how_often_it_rings_by_chance_is_counted_on_resampled_graphs():
    low = Step(0, "", **(GOOD | {"accuracy": 0.7, "low": 0.6, "high": 0.8}))
    chances = chances_of(REFERENCE, (low, Step(0, "", **GOOD), low, low))
    assert chances[AlarmKind.LEVEL] == Chance(3, 4)
    assert chances[AlarmKind.CLASS_SHARES] == Chance(0, 4)
    (alarm,) = alarms_of(low, REFERENCE, chances)
    assert str(alarm).endswith("By chance: it rang on 3 of 4 graphs resampled from the source.")
    assert mg.Alarm.from_figures(alarm.figures()) == alarm


def test_without_a_source_graph_it_is_not_known():
    watch = mg.Watch(trained(), level=0.999)
    (alarm, *_) = watch.observe(day(0.85, 1)).alarms
    assert alarm.chance == Chance(0, 0)
    assert "not known: no source graph was given" in str(alarm)


@pytest.mark.parametrize(("level", "least"), [(0.5, 0), (0.999, 5)])
def test_a_watch_measures_it_once_on_its_source(level, least):
    watch = mg.Watch(trained(), source=source_graph(), level=level, resamples=5)
    assert watch.chances[AlarmKind.LEVEL].graphs == 0
    watch.observe(day(0.85, 1))
    assert watch.chances[AlarmKind.LEVEL] == Chance(least, 5)
    measured = watch._resampled
    watch.observe(day(0.85, 2))
    assert watch._resampled is measured


def test_a_shift_rings_what_the_source_does_not():
    watch = mg.Watch(trained(), source=source_graph(), level=0.9, resamples=5)
    quiet = watch.observe(day(0.85, 3, nodes=800))
    loud = watch.observe(day(0.85, 3, nodes=800, shares=(0.85, 0.15)))
    assert AlarmKind.CLASS_SHARES not in [alarm.kind for alarm in quiet.alarms]
    (alarm,) = (alarm for alarm in loud.alarms if alarm.kind == AlarmKind.CLASS_SHARES)
    assert alarm.chance == Chance(0, 5)
