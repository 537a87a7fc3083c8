"""Sentences about the predicted classes, without labels."""

import numpy as np
import pytest

from matcha_gnn.alarms import JUMP, class_alarms, emptied, jumped


def counts(*numbers):
    return np.array(numbers, dtype=float)


def test_a_jump_is_named_with_its_size_and_the_class_that_grew_most():
    (alarm,) = class_alarms(counts(50, 30, 20), counts(20, 25, 55))
    assert alarm == (
        "Predicted class shares moved by 35 points: class 2 went from 20.0% to 55.0% of nodes."
    )


@pytest.mark.parametrize(("nodes", "expected"), [(24, False), (25, True)])
def test_a_jump_begins_at_a_quarter_of_all_nodes(nodes, expected):
    assert JUMP == 0.25
    before, after = counts(50, 50), counts(50 - nodes, 50 + nodes)
    assert jumped(before, after) is expected
    assert bool(class_alarms(before, after)) is expected


def test_an_emptied_class_is_named_with_what_it_had():
    assert class_alarms(counts(95, 5, 0), counts(100, 0, 0)) == (
        "Class 1 had 5.0% of nodes before and has none after.",
    )
    assert emptied(counts(95, 5, 0), counts(100, 0, 0)) == [1]


def test_of_many_emptied_classes_a_few_are_named():
    before = counts(80, *[2] * 10)
    (alarm,) = class_alarms(before, counts(100, *[0] * 10))
    assert alarm == (
        "Classes 1, 2, 3, 4, 5, … (10 in all) had 20.0% of nodes before and have none after."
    )
