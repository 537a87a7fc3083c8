"""The page that shows one adaptation."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from matcha_gnn.io.provenance import versions
from matcha_gnn.losses import Loss
from matcha_gnn.methods import BaseMethod
from matcha_gnn.metrics import evaluate
from matcha_gnn.report.figures import (
    Picture,
    candidate_bars,
    confidence_histograms,
    gamma_bars,
    label_confusion,
    loss_curve,
    share_curves,
)
from matcha_gnn.report.maps import node_map
from matcha_gnn.report.replay import round_curves
from matcha_gnn.report.shift import shift_card
from matcha_gnn.report.template import render, write
from matcha_gnn.result import Adaptation
from matcha_gnn.strategies import Strategy

ONCE = ("checks", "inference", "setup", "evidence", "fit", "other")
"""Stages that do not belong to a round."""
MOVED = {
    "gamma": "γ (the weights of the hops)",
    "theta": "θ (the encoder)",
    "both": "γ (the weights of the hops) and θ (the encoder)",
}
SCORES = {"balanced_accuracy": "balanced accuracy", "macro_f1": "macro F1"}


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


class ClassRow(NamedTuple):
    """Nodes predicted to be of a class, and its recall where labels were given."""

    name: str
    before: int
    after: int
    recall_before: float | None
    recall_after: float | None


def write_page(
    result: Adaptation,
    path: str | Path,
    labels: Tensor | None = None,
    mask: Tensor | None = None,
    *,
    projection: str = "pca",
    command: str | None = None,
) -> None:
    """Write a result as one HTML file that needs nothing else.

    Args:
        result: what `adapt` returned.
        path: the file to write; it appears whole or not at all.
        labels: true classes [N], to show accuracy.
        mask: the nodes that accuracy counts, bool [N]; all by default.
        projection: how the map of the nodes is drawn: "pca" or "tsne".
        command: the command line that made the result, to be shown.

    Raises:
        InvalidArgumentError: labels or mask do not fit the result, or the projection is unknown.
        InvalidFileError: the folder is missing or cannot be written.
    """
    write(render_page(result, labels, mask, projection=projection, command=command), path)


def render_page(
    result: Adaptation,
    labels: Tensor | None = None,
    mask: Tensor | None = None,
    *,
    projection: str = "pca",
    command: str | None = None,
) -> str:
    """The page as text, the same for the same result; arguments as in `write_page`."""
    scores = _scores(result, labels, mask)
    return render(
        "result.html.j2",
        result=result,
        title=f"{result.method.name}, {result.strategy.name}",
        candidates=result.decision.candidates if result.decision else (),
        verdict=result.decision.verdict if result.decision else None,
        rounds=result.rounds,
        moved=MOVED[result.moves],
        num_changed=int((result.labels != result.labels_before).sum()),
        shift=shift_card(result),
        scores=scores,
        num_scored=len(result.labels) if mask is None else int(mask.sum()),
        pictures=pictures(result, projection),
        classes=_classes(result, labels, mask),
        gamma=_gamma(result),
        place="hop" if result.model.gamma_is_hop_weights else "number",
        stages=_stages(result),
        command=command or _call(result),
        settings=_flat(result.configuration()),
        versions=versions(),
    )


def pictures(result: Adaptation, projection: str = "pca") -> list[Picture]:
    """All figures, in the order of the page; those that cannot be drawn are left out."""
    rounds = (loss_curve, round_curves, share_curves) if result.trace.loss else ()
    drawn = (
        gamma_bars(result),
        *(draw(result) for draw in ((candidate_bars,) if result.decision else rounds)),
        confidence_histograms(result),
        label_confusion(result),
        node_map(result, projection),
    )
    return [picture for picture in drawn if picture]


def _scores(result: Adaptation, labels: Tensor | None, mask: Tensor | None) -> list[Change]:
    if labels is None:
        return []
    labels, mask = labels.cpu(), None if mask is None else mask.cpu()
    before = evaluate(result.labels_before.cpu(), labels, mask).as_dict()
    after = evaluate(result.labels.cpu(), labels, mask).as_dict()
    return [Change(SCORES.get(name, name), before[name], after[name]) for name in before]


def _classes(result: Adaptation, labels: Tensor | None, mask: Tensor | None) -> list[ClassRow]:
    size = result.probs.shape[1]
    states = [each.cpu() for each in (result.labels_before, result.labels)]
    counts = [torch.bincount(each, minlength=size).tolist() for each in states]
    recalls = [_recall(each, labels, mask, size) for each in states]
    return [
        ClassRow(str(c), counts[0][c], counts[1][c], recalls[0][c], recalls[1][c])
        for c in range(size)
    ]


def _recall(
    predicted: Tensor, labels: Tensor | None, mask: Tensor | None, size: int
) -> list[float | None]:
    """Share of each true class that is found; None for a class that does not occur."""
    if labels is None:
        return [None] * size
    counted = labels.cpu() < size
    counted = counted if mask is None else counted & mask.cpu()
    true, given = labels.cpu()[counted], predicted[counted]
    nodes, hits = (torch.bincount(c, minlength=size).tolist() for c in (true, true[true == given]))
    return [hit / of if of else None for hit, of in zip(hits, nodes, strict=True)]


def _gamma(result: Adaptation) -> list[Change]:
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
    return f"mg.adapt({', '.join(parts)}, seed={result.seed})"


def code_of(value: object) -> str:
    """Python code that builds a method, loss, strategy or plain value.

    Example:
        >>> from matcha_gnn.methods import ERM
        >>> from matcha_gnn.strategies import ClosedForm
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
