"""The files that `matcha adapt` writes, each whole or not at all."""

import csv
import math
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from matcha_gnn.errors import InvalidFileError, MatchaError, optional_imports
from matcha_gnn.evidence import ACCURACY
from matcha_gnn.io.asked import QUESTIONS, asked_names, is_asked, keep_answers, write_asked
from matcha_gnn.io.files import output_folder, replacing
from matcha_gnn.io.jsontext import write_json
from matcha_gnn.io.models import can_save, save_model
from matcha_gnn.io.provenance import versions
from matcha_gnn.metrics import Scorable, evaluate, scorable
from matcha_gnn.result import Adaptation

SUMMARY = "summary.json"
PREDICTIONS, MODEL, HISTORY = "predictions.npz", "model.safetensors", "history.csv"
CHANGED = "changed.csv"
PAGE = "report.html"
RUN_FILES = (PREDICTIONS, CHANGED, MODEL, HISTORY, PAGE, SUMMARY)
"""What a run writes, but for questions."""


def begin_outputs(folder: str | Path, writes: Collection[str]) -> Path:
    """Make a folder ready for the files of one run.

    The summary of an earlier run is removed first: a folder without one is not complete. Then go
    those files of earlier runs that this run does not replace. Other files stay, and so do answers
    that somebody typed into the questions, under another name.

    Args:
        folder: created if needed.
        writes: names of the files that this run writes.

    Raises:
        InvalidFileError: the folder cannot be written, or a file cannot be removed.
    """
    place = output_folder(folder)
    if QUESTIONS not in writes:
        keep_answers(place)
    old = [path for path in place.iterdir() if _is_output(path) and path.name not in writes]
    for path in (place / SUMMARY, *old):
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            got = f"{path} ({error.strerror})"
            raise InvalidFileError("output folder", got, "files that can be removed") from error
    return place


def _is_output(path: Path) -> bool:
    """Whether a file has a name that only this package's runs give."""
    return path.is_file() and (path.name in RUN_FILES or is_asked(path.name))


class Made(NamedTuple):
    """How the result of a command was made.

    Attributes:
        command: the command line, for the report.
        graph: what the graph is called there.
        page: write the report.
        call: how the command was called, kept with the questions where some were asked.
    """

    command: str | None = None
    graph: str | None = None
    page: bool = True
    call: Mapping[str, Any] | None = None


def write_outputs(
    result: Adaptation,
    folder: str | Path,
    labels: object,
    mask: object,
    made: Made = Made(),  # noqa: B008 (immutable)
) -> dict[str, Any]:
    """Write predictions, changes, adapted model, history, report, questions and, last, the summary.

    Args:
        result: what `adapt` returned.
        folder: created if needed.
        labels: true classes [N] for accuracy, or None; what is no class is not scored.
        mask: the nodes that accuracy counts, bool [N], or None for all.
        made: how the result was made.

    Returns:
        The summary, as written to summary.json.
    """
    model, page = model_file(result), made.page
    writes = [PREDICTIONS, CHANGED, HISTORY, *asked_names(result, page)]
    writes += [name for name in (model, PAGE if page else None) if name]
    folder = begin_outputs(folder, writes)
    with replacing(folder / PREDICTIONS) as beside, open(beside, "wb") as file:
        np.savez(file, **predictions(result))  # type: ignore[arg-type]
    write_changed(result, folder / CHANGED)
    if model:
        save_model(result.model, folder / model)
    write_history(result, folder / HISTORY)
    scored = scorable(labels, mask, *result.probs.shape)
    if page:
        result.report(folder / PAGE, *_known(scored), command=made.command, graph=made.graph)
    if result.questions is not None:
        write_asked(result, folder, made.call, page)
    summary = summarise_run(result, _scores(result, scored))
    write_json(folder / SUMMARY, summary)
    return summary


def predictions(result: Adaptation) -> dict[str, NDArray[Any]]:
    """Arrays of predictions.npz: labels and probabilities after and before, and node numbers."""
    found = {
        "ids": torch.arange(len(result.labels)),
        "labels": result.labels,
        "labels_before": result.labels_before,
        "probs": result.probs,
        "probs_before": result.probs_before,
    }
    return {name: tensor.cpu().numpy() for name, tensor in found.items()}


def write_changed(result: Adaptation, path: Path) -> None:
    """One line for each node whose label changed, in their order, as CSV.

    Probabilities are those of the label before by the source model, and of the label after by the
    model that was taken.
    """
    names = result.classes
    with replacing(path) as beside, open(beside, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(
            ("node", "label_before", "label_after", "probability_before", "probability_after")
        )
        for change in result.changes():
            labels = names[change.before], names[change.after]
            probs = f"{change.prob_before:.6f}", f"{change.prob_after:.6f}"
            writer.writerow((change.node, *labels, *probs))


def model_file(result: Adaptation) -> str | None:
    """The name of the file that holds the model; none for a network whose weights stay."""
    return MODEL if can_save(result.model) else None


def can_report(tell: Callable[[str], None]) -> bool:
    """Whether the packages of the report are installed; tells which one is missing."""
    try:
        with optional_imports("report.html"):
            import matcha_gnn.report  # noqa: F401
    except MatchaError as missing:
        tell(str(missing))
        return False
    return True


def _known(scored: Scorable) -> tuple[Tensor | None, Tensor | None]:
    """Labels and mask, where there is a node to score."""
    return (scored.labels, scored.mask) if scored.number else (None, None)


def _scores(result: Adaptation, scored: Scorable) -> dict[str, Any]:
    """What summary.json says of scores: over how many nodes, and what was left out."""
    before = after = None
    entries = dict[str, Any]()
    if scored.number:
        before, after = (
            evaluate(each.cpu(), scored.labels, scored.mask).accuracy
            for each in (result.labels_before, result.labels)
        )
        if result.goal != ACCURACY:
            truth = scored.labels[scored.mask]
            both = {"metric_before": result.probs_before, "metric_after": result.probs}
            entries = {
                name: result.goal.score(truth, probs.cpu()[scored.mask])
                for name, probs in both.items()
            }
    return {
        "accuracy_before": before,
        "accuracy_after": after,
        "metric_before": None,
        "metric_after": None,
        **entries,
        "scored_nodes": scored.number,
        "score_remarks": list(scored.remarks),
    }


def summarise_run(result: Adaptation, scores: Mapping[str, Any]) -> dict[str, Any]:
    """The content of summary.json, with what `_scores` gives."""
    decision = result.decision
    tried = decision.candidates if decision else ()
    verdict = decision.verdict if decision else None
    return {
        "date": result.date.isoformat(),
        "status": str(result.status),
        "severity": str(result.severity),
        "alarms": list(result.alarms),
        "meaning": result.summary(),
        "chosen": decision.chosen if decision else None,
        "taken_by_hand_in_place_of": (decision.by_hand or None) if decision else None,
        "threshold": decision.threshold if decision else None,
        "metric_title": result.goal.title,
        "metric_unit": "share" if result.goal.is_share else "own",
        **_expected(result),
        "classes": list(result.classes),
        "class_estimates": _class_estimates(result),
        "candidates": [one.figures() for one in tried],
        "answers": verdict and verdict.figures(),
        **result.configuration(),
        "pic_before": result.pic_before,
        "pic_after": result.pic_after,
        "gamma_before": result.gamma_before.tolist(),
        "gamma_after": result.gamma.tolist(),
        **scores,
        "labels_changed": result.changed,
        "model_file": model_file(result),
        "seconds": result.seconds,
        "versions": versions(),
    }


def _expected(result: Adaptation) -> dict[str, Any]:
    """What was expected of the metric before and after; None where it cannot be estimated."""
    decision = result.decision
    before = after = None
    if decision is not None and decision.taken is not None and not decision.verdict:
        values = decision.candidates[0].goal.value, decision.taken.goal.value
        before, after = values if math.isfinite(sum(values)) else (None, None)
    return {"expected_before": before, "expected_after": after}


def _class_estimates(result: Adaptation) -> dict[str, Any] | None:
    """Expected precision, recall and F1 of each class before and after."""
    decision = result.decision
    if decision is None or not decision.candidates or decision.taken is None:
        return None
    before, after = decision.candidates[0].class_estimates(), decision.taken.class_estimates()
    if before is None or after is None:
        return None
    return {
        f"{name}_{when}": getattr(of, name).tolist()
        for name in before._fields
        for when, of in (("before", before), ("after", after))
    }


def write_history(result: Adaptation, path: Path) -> None:
    """One line per round, as CSV."""
    rows = result.trace.rows()
    with replacing(path) as beside, open(beside, "w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0] if rows else ("round", "loss")))
        writer.writeheader()
        writer.writerows(rows)
