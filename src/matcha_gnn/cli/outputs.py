"""The files that `matcha adapt` writes, each whole or not at all."""

import csv
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from matcha_gnn.errors import (
    IncompatibleError,
    InvalidFileError,
    MatchaError,
    optional_imports,
)
from matcha_gnn.evidence.goals import ACCURACY
from matcha_gnn.io import questionfiles
from matcha_gnn.io.files import output_folder, replacing
from matcha_gnn.io.jsontext import write_json
from matcha_gnn.io.provenance import versions
from matcha_gnn.io.questionfiles import Place, keep_answers, write_asked
from matcha_gnn.metrics import Scorable, evaluate, scorable
from matcha_gnn.result import Result
from matcha_gnn.typing import Parameters

PREDICTIONS, CHANGED, ANSWER = "predictions.npz", "changed.csv", "answer.safetensors"
PAGE, SUMMARY = "report.html", "summary.json"
ASKED = (questionfiles.ASKED, questionfiles.QUESTIONS, questionfiles.PAGE)
"""What a run with questions writes beside the rest."""
RUN_FILES = (PREDICTIONS, CHANGED, ANSWER, PAGE, SUMMARY)
"""What a run writes, but for questions."""


def write_outputs(
    result: Result,
    folder: str | Path,
    data: object = None,
    *,
    command: str = "",
    place: Place = Place(),  # noqa: B008 (immutable)
    page: bool = True,
) -> Parameters:
    """Write predictions, changes, the answer's file, page, questions and, last, the summary.

    Args:
        result: what `adapt` returned.
        folder: created if needed.
        data: the graph as it was read: its `y` is scored at its `test_mask`, where it has them.
        command: the command line, for page and summary.
        place: where the graph is.
        page: write pages.

    Returns:
        The summary, as written to summary.json.
    """
    folder = output_folder(folder)
    asked = result.questions is not None
    if not asked:
        keep_answers(folder)
    remove_outputs(folder, RUN_FILES if asked else (*RUN_FILES, *ASKED))
    with replacing(folder / PREDICTIONS) as beside, open(beside, "wb") as file:
        np.savez(file, **_predictions(result))
    write_changed(result, folder / CHANGED)
    no_answer = _write_answer(result, folder / ANSWER)
    labels, mask = getattr(data, "y", None), getattr(data, "test_mask", None)
    scored = scorable(labels, mask, *result.probs.shape)
    if page:
        known = (scored.labels, scored.mask) if scored.number else (None, None)
        name = Path(place.path).name or None
        result.report(folder / PAGE, *known, command=command or None, graph=name)
    if asked:
        write_asked(result, folder, place, page=page)
    summary = {
        **result.to_dict(),
        **_scores(result, scored),
        "answer_file": None if no_answer else ANSWER,
        "no_answer_file": no_answer or None,
        "command": command,
        "versions": versions(),
    }
    write_json(folder / SUMMARY, summary)
    return summary


def remove_outputs(folder: Path, names: Collection[str]) -> None:
    """Remove files of an earlier run, its summary first: a folder without one is not complete.

    Other files stay.

    Raises:
        InvalidFileError: a file cannot be removed.
    """
    for name in sorted(names, key=lambda name: name != SUMMARY):
        try:
            (folder / name).unlink(missing_ok=True)
        except OSError as error:
            got = f"{folder / name} ({error.strerror})"
            raise InvalidFileError("output folder", got, "files that can be removed") from error


def _write_answer(result: Result, path: Path) -> str:
    """Write what answers on other graphs; returns why there is no such file, or nothing."""
    try:
        result.save(path)
    except IncompatibleError as error:
        return str(error)
    return ""


def _predictions(result: Result) -> dict[str, Any]:
    """Labels and probabilities after and before, and node numbers."""
    tensors = {
        "ids": torch.arange(len(result.labels)),
        "labels": result.labels,
        "labels_before": result.labels_before,
        "probs": result.probs,
        "probs_before": result.probs_before,
    }
    return {name: tensor.cpu().numpy() for name, tensor in tensors.items()}


def write_changed(result: Result, path: Path) -> None:
    """One line for each node whose label changed, in their order, as CSV.

    Probabilities are those of the label before by the network, and of the label after by what was
    taken.
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


def can_report(tell: Callable[[str], None]) -> bool:
    """Whether the packages of the report are installed; tells which one is missing."""
    try:
        with optional_imports("report.html"):
            import matcha_gnn.report  # noqa: F401
    except MatchaError as missing:
        tell(str(missing))
        return False
    return True


def _scores(result: Result, scored: Scorable) -> Parameters:
    """What summary.json says of scores: over how many nodes, and what was left out."""

    def both(score: Callable[[Tensor], float]) -> tuple[float | None, float | None]:
        if not scored.number:
            return None, None
        return score(result.probs_before.cpu()), score(result.probs.cpu())

    accuracy = both(lambda probs: evaluate(probs, scored.labels, scored.mask).accuracy)
    metric: tuple[float | None, float | None] = None, None
    if result.goal != ACCURACY:
        truth = scored.labels[scored.mask]
        metric = both(lambda probs: result.goal.score(truth, probs[scored.mask]))
    return {
        "accuracy_before": accuracy[0],
        "accuracy_after": accuracy[1],
        "metric_before": metric[0],
        "metric_after": metric[1],
        "scored_nodes": scored.number,
        "score_remarks": list(scored.remarks),
    }
