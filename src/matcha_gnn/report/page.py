"""The page that shows one adaptation."""

from collections.abc import Mapping
from dataclasses import replace
from heapq import nlargest
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from matcha_gnn.evidence import ACCURACY
from matcha_gnn.evidence.belief_model import BeliefModel
from matcha_gnn.gamma.losses import Loss
from matcha_gnn.gamma.methods import BaseMethod
from matcha_gnn.gamma.strategies import Strategy
from matcha_gnn.io.provenance import versions
from matcha_gnn.metrics import evaluate
from matcha_gnn.report.candidates import candidate_gains
from matcha_gnn.report.classes import class_rows
from matcha_gnn.report.figures import (
    Picture,
    confidence_histograms,
    gamma_bars,
    label_confusion,
    loss_curve,
    share_curves,
)
from matcha_gnn.report.shift import shift_card
from matcha_gnn.report.template import render, write
from matcha_gnn.result import Adaptation
from matcha_gnn.result.adaptation import Change as NodeChange

ONCE = ("inference", "setup", "evidence", "fit")
"""Stages that do not belong to a round."""
MOVED = {
    "gamma": "γ (the weights of the hops)",
    "theta": "θ (the encoder)",
    "both": "γ (the weights of the hops) and θ (the encoder)",
}
SCORES = {"balanced_accuracy": "balanced accuracy", "macro_f1": "macro F1"}
MAX_NODES = 50
"""Nodes in the table of changes."""


class Change(NamedTuple):
    """A number before and after adaptation."""

    name: str
    before: float
    after: float


class Stage(NamedTuple):
    """Time spent in a stage; `per_round` is None for those that run once."""

    name: str
    seconds: float
    per_round: float | None


class Outlook(NamedTuple):
    """What is set beside the source model.

    Attributes:
        name: of the candidate, or of the strategy.
        taken: it is what the result has; otherwise it is the best candidate that was not taken.
        result: the result, or what it would be.
        changes: of nodes, those whose new label is most probable first.
        number: of all changes.
    """

    name: str
    taken: bool
    result: Adaptation
    changes: list[NodeChange]
    number: int


def write_page(
    result: Adaptation,
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
    result: Adaptation,
    labels: Tensor | None = None,
    mask: Tensor | None = None,
    *,
    command: str | None = None,
    graph: str | None = None,
) -> str:
    """The page as text, the same for the same result; arguments as in `write_page`."""
    scores = _scores(result, labels, mask)
    outlook, decision = outlook_of(result), result.decision
    return render(
        "result.html.j2",
        result=result,
        goal=result.goal,
        decision=decision,
        title=page_title(result, graph),
        candidates=decision.candidates if decision else (),
        verdict=decision.verdict if decision else None,
        outlook=outlook,
        rounds=result.rounds,
        moved=MOVED[result.moves],
        shift=shift_card(result),
        scores=scores,
        scored=_scored(result, mask),
        gains=candidate_gains(result),
        moves=_moves(outlook),
        pictures=[picture for picture in [confidence_histograms(result)] if picture],
        workings=workings(result),
        classes=class_rows(outlook.result, labels, mask),
        gamma=_gamma(result),
        place="hop" if result.model.gamma_is_hop_weights else "number",
        stages=_stages(result),
        command=command or _call(result),
        settings=_flat(result.configuration()),
        versions=versions(),
    )


def page_title(result: Adaptation, graph: str | None) -> str:
    """Model, graph and day."""
    model = result.model.network if isinstance(result.model, BeliefModel) else result.model
    named = graph or f"a graph of {len(result.labels):,} nodes"
    return f"{model.name} on {named}, {result.date.day} {result.date:%B %Y}"


def outlook_of(result: Adaptation) -> Outlook:
    """What was taken, or else the best candidate that was not."""
    decision = result.decision
    best = decision.compared if decision and not decision.adapted else None
    if best is None:
        name = decision.chosen if decision else result.strategy.name
        return Outlook(name, True, result, *_changes(result))
    decision = replace(decision, chosen=best.name) if decision else None
    other = replace(result, probs=best.probs, decision=decision)
    return Outlook(best.name, False, other, *_changes(other))


def _changes(result: Adaptation) -> tuple[list[NodeChange], int]:
    every = list(result.changes())
    return nlargest(MAX_NODES, every, key=lambda change: change.prob_after), len(every)


def _moves(outlook: Outlook) -> Picture | None:
    """Old against new labels, where some differ."""
    return label_confusion(outlook.result) if outlook.number else None


def workings(result: Adaptation) -> list[Picture]:
    """How the result came about: hop weights, and the rounds where there were some."""
    rounds = (loss_curve, share_curves) if result.trace.loss else ()
    bars = [gamma_bars(result)] if _gamma(result) else []
    drawn = [*bars, *(draw(result) for draw in rounds)]
    return [picture for picture in drawn if picture]


def pictures(result: Adaptation) -> list[Picture]:
    """All figures, in the order of the page; those that cannot be drawn are left out."""
    drawn = (
        _moves(outlook_of(result)),
        candidate_gains(result),
        confidence_histograms(result),
        *workings(result),
    )
    return [picture for picture in drawn if picture]


def _scores(result: Adaptation, labels: Tensor | None, mask: Tensor | None) -> list[Change]:
    if labels is None:
        return []
    labels, mask = labels.cpu(), None if mask is None else mask.cpu()
    before = evaluate(result.labels_before.cpu(), labels, mask).as_dict()
    after = evaluate(result.labels.cpu(), labels, mask).as_dict()
    scores = [Change(SCORES.get(name, name), before[name], after[name]) for name in before]
    if result.goal.is_share and result.goal.title not in {row.name for row in scores}:
        known = slice(None) if mask is None else mask
        states = (result.probs_before, result.probs)
        own = [result.goal.score(labels[known], probs.cpu()[known]) for probs in states]
        scores.insert(0, Change(result.goal.title, *own))
    return scores


def _scored(result: Adaptation, mask: Tensor | None) -> str:
    """Over which nodes scores are."""
    number = len(result.labels)
    if mask is None or bool(mask.all()):
        return f"all {number:,} nodes"
    return f"{int(mask.sum()):,} of {number:,} nodes, those with labels to score by"


def _gamma(result: Adaptation) -> list[Change]:
    """Hop weights before and after, where they moved."""
    if torch.equal(result.gamma, result.gamma_before):
        return []
    before, after = result.gamma_before.flatten().tolist(), result.gamma.flatten().tolist()
    return [Change(str(k), *pair) for k, pair in enumerate(zip(before, after, strict=True))]


def _stages(result: Adaptation) -> list[Stage]:
    """The final prediction has a forward pass and a loss, so it counts as a round here."""
    rounds = max(1, len(result.trace.loss))
    return [
        Stage(name, seconds, None if name in ONCE else seconds / rounds)
        for name, seconds in result.seconds.items()
    ]


def _call(result: Adaptation) -> str:
    """The call that gives this result again."""
    parts = ["model", "graph", code_of(result.method), code_of(result.strategy)]
    if result.goal != ACCURACY:
        chosen = result.goal.figures()
        parts += [f"{name}={value!r}" for name, value in chosen.items() if value is not None]
    return f"mg.adapt({', '.join(parts)}, seed={result.seed})"


def code_of(value: object) -> str:
    """Python code that builds a method, loss, strategy or plain value.

    Example:
        >>> from matcha_gnn.gamma.methods import ERM
        >>> from matcha_gnn.gamma.strategies import ClosedForm
        >>> code_of(ERM()), code_of(ClosedForm())
        ('mg.ERM()', 'mg.ClosedForm(loss=mg.SURE(noise_share=None), rounds=1)')
    """
    if isinstance(value, tuple):
        return f"({', '.join(map(code_of, value))}{',' if len(value) == 1 else ''})"
    if not isinstance(value, BaseMethod | Loss | Strategy):
        return repr(value)
    given = vars(value) if isinstance(value, Strategy) else value.settings()
    own = ", ".join(f"{name}={code_of(each)}" for name, each in given.items())
    return f"mg.{type(value).__name__}({own})"


def _flat(settings: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Rows of name and value; a dictionary inside becomes one row per entry."""
    rows: list[tuple[str, str]] = []
    for name, value in settings.items():
        if isinstance(value, dict):
            rows += [(f"{name}: {inner}", text) for inner, text in _flat(value)]
        else:
            rows.append((name, str(value)))
    return [(name.replace("_", " "), text) for name, text in rows]
