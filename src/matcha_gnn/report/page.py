"""The page that shows one result."""

from dataclasses import replace
from heapq import nlargest
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from matcha_gnn.candidates import DESCRIPTIONS
from matcha_gnn.io.provenance import versions
from matcha_gnn.metrics import evaluate
from matcha_gnn.report.candidates import candidate_gains
from matcha_gnn.report.classes import class_rows
from matcha_gnn.report.figures import Picture, confidence_histograms, label_confusion
from matcha_gnn.report.template import render, write
from matcha_gnn.result import Change as NodeChange
from matcha_gnn.result import Result
from matcha_gnn.shift import shift_card

SCORES = {"balanced_accuracy": "balanced accuracy", "macro_f1": "macro F1"}
MAX_NODES = 50
"""Nodes in the table of changes."""


class Change(NamedTuple):
    """A number before and after adaptation."""

    name: str
    before: float
    after: float


class Outlook(NamedTuple):
    """What is set beside the network.

    Attributes:
        name: of the candidate.
        taken: it is what the result has; otherwise it is the best candidate that was not taken.
        result: the result, or what it would be.
        changes: of nodes, those whose new label is most probable first.
        number: of all changes.
    """

    name: str
    taken: bool
    result: Result
    changes: list[NodeChange]
    number: int


def write_page(
    result: Result,
    path: str | Path,
    labels: Tensor | None = None,
    mask: Tensor | None = None,
    *,
    command: str | None = None,
    graph: str | None = None,
) -> None:
    """Write a result as one HTML file that needs nothing else.

    Args:
        result: what `adapt` returned.
        path: the file to write; it appears whole or not at all.
        labels: true classes [N], to show accuracy.
        mask: the nodes that accuracy counts, bool [N]; all by default.
        command: the command line that made the result, to be shown.
        graph: what the title calls the graph; its size by default.

    Raises:
        InvalidArgumentError: labels or mask do not fit the result.
        InvalidFileError: the folder is missing or cannot be written.
    """
    write(render_page(result, labels, mask, command=command, graph=graph), path)


def render_page(
    result: Result,
    labels: Tensor | None = None,
    mask: Tensor | None = None,
    *,
    command: str | None = None,
    graph: str | None = None,
) -> str:
    """The page as text, the same for the same result; arguments as in `write_page`."""
    return render("result.html.j2", **page_content(result, labels, mask, command, graph))


def page_content(
    result: Result,
    labels: Tensor | None,
    mask: Tensor | None,
    command: str | None,
    graph: str | None,
) -> dict[str, Any]:
    """What the template is filled with."""
    outlook = outlook_of(result)
    return {
        "result": result,
        "goal": result.goal,
        "title": page_title(result, graph),
        "candidates": result.candidates,
        "descriptions": DESCRIPTIONS,
        "verdict": result.verdict,
        "outlook": outlook,
        "shift": shift_card(result, result.source).rows if result.source else [],
        "scores": _scores(result, labels, mask),
        "scored": _scored(result, mask),
        "gains": candidate_gains(result),
        "moves": _moves(outlook),
        "pictures": [confidence_histograms(result)],
        "classes": class_rows(outlook.result, labels, mask),
        "command": command or result.call,
        "versions": versions(),
    }


def page_title(result: Result, graph: str | None) -> str:
    """Network, graph and day."""
    title = graph or f"a graph of {len(result.labels):,} nodes"
    name = result.candidates[0].model.name
    return f"{name} on {title}, {result.date.day} {result.date:%B %Y}"


def outlook_of(result: Result) -> Outlook:
    """What was taken, or else the best candidate that was not."""
    best = None if result.adapted else result.compared
    if best is None:
        return Outlook(result.chosen, True, result, *_changes(result))
    other = replace(result, chosen=best.name)
    return Outlook(best.name, False, other, *_changes(other))


def _changes(result: Result) -> tuple[list[NodeChange], int]:
    every = list(result.changes())
    return nlargest(MAX_NODES, every, key=lambda change: change.prob_after), len(every)


def _moves(outlook: Outlook) -> Picture | None:
    """Old against new labels, where some differ."""
    return label_confusion(outlook.result) if outlook.number else None


def _scores(result: Result, labels: Tensor | None, mask: Tensor | None) -> list[Change]:
    if labels is None:
        return []
    labels, mask = labels.cpu(), None if mask is None else mask.cpu()
    before = evaluate(result.labels_before.cpu(), labels, mask).as_dict()
    after = evaluate(result.labels.cpu(), labels, mask).as_dict()
    scores = [Change(SCORES.get(name, name), before[name], after[name]) for name in before]
    if result.goal.title not in {row.name for row in scores}:
        counted = slice(None) if mask is None else mask
        states = (result.probs_before, result.probs)
        own = [result.goal.score(labels[counted], probs.cpu()[counted]) for probs in states]
        scores.insert(0, Change(result.goal.title, *own))
    return scores


def _scored(result: Result, mask: Tensor | None) -> str:
    """Over which nodes scores are."""
    number = len(result.labels)
    if mask is None or bool(mask.all()):
        return f"all {number:,} nodes"
    return f"{int(mask.sum()):,} of {number:,} nodes, those with labels to score by"
