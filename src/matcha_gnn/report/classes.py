"""The table of the classes: how many nodes are given each, and how right that is."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from matcha_gnn.candidates import ClassScores
from matcha_gnn.metrics import confusion_matrix
from matcha_gnn.result import Result


class Scores(NamedTuple):
    """Of one class; None where it cannot be said."""

    precision: float | None = None
    recall: float | None = None
    f1: float | None = None


class ClassRow(NamedTuple):
    """One class.

    Attributes:
        name: of the class.
        before: nodes that are given it before.
        after: nodes that are given it after.
        expected: scores by the evidence, before and after.
        measured: scores by labels that were given, before and after.
    """

    name: str
    before: int
    after: int
    expected: tuple[Scores, Scores]
    measured: tuple[Scores, Scores]


def class_rows(
    result: Result, labels: Tensor | None = None, mask: Tensor | None = None
) -> list[ClassRow]:
    """A row for each class; arguments as in `write_page`."""
    states = [each.cpu() for each in (result.labels_before, result.labels)]
    size = result.probs.shape[1]
    counts = [torch.bincount(each, minlength=size).tolist() for each in states]
    expected, measured = _expected(result, size), _measured(states, labels, mask, size)
    return [
        ClassRow(
            name,
            counts[0][c],
            counts[1][c],
            (expected[0][c], expected[1][c]),
            (measured[0][c], measured[1][c]),
        )
        for c, name in enumerate(result.classes)
    ]


def _expected(result: Result, size: int) -> list[list[Scores]]:
    """What is expected of the network and of what was taken."""
    estimates = [one.class_estimates() for one in (result.candidates[0], result.taken)]
    return [[Scores()] * size if each is None else _rows(*each) for each in estimates]


def _measured(
    states: list[Tensor], labels: Tensor | None, mask: Tensor | None, size: int
) -> list[list[Scores]]:
    """By labels; a class that does not occur has none."""
    if labels is None:
        return [[Scores()] * size] * 2
    counted = labels.cpu() < size
    counted = counted if mask is None else counted & mask.cpu()
    true = labels.cpu()[counted]
    return [_rows(*ClassScores.of(_table(each[counted], true, size))) for each in states]


def _table(given: Tensor, true: Tensor, size: int) -> Tensor:
    table, seen = torch.zeros(size, size).double(), confusion_matrix(given, true)
    table[: len(seen), : len(seen)] = seen
    return table


def _rows(*columns: Tensor) -> list[Scores]:
    """Columns [C] as one entry per class."""
    values = zip(*(column.tolist() for column in columns), strict=True)
    return [Scores(*(None if math.isnan(each) else each for each in row)) for row in values]
