"""The files that `matcha adapt` writes, each whole or not at all."""

import csv
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from matcha_gnn.files import output_folder, replacing
from matcha_gnn.jsontext import json_text
from matcha_gnn.metrics import Scorable, evaluate, scorable
from matcha_gnn.modelfile import save_model
from matcha_gnn.provenance import versions
from matcha_gnn.result import Adaptation


def write_outputs(
    result: Adaptation,
    folder: str | Path,
    labels: object,
    mask: object,
    command: str | None = None,
    page: bool = True,
) -> dict[str, Any]:
    """Write predictions, adapted model, history, report and, last, the summary.

    Args:
        result: what `adapt` returned.
        folder: created if needed.
        labels: true classes [N] for accuracy, or None; what is no class is not scored.
        mask: the nodes that accuracy counts, bool [N], or None for all.
        command: the command line, for the report.
        page: write the report; it needs the graph in memory.

    Returns:
        The summary, as written to summary.json.
    """
    folder = output_folder(folder)
    with replacing(folder / "predictions.npz") as beside, open(beside, "wb") as file:
        np.savez(file, probs=result.probs.cpu().numpy(), labels=result.labels.cpu().numpy())
    save_model(result.model, folder / "model.safetensors")
    write_history(result, folder / "history.csv")
    scored = scorable(labels, mask, *result.probs.shape)
    if page:
        result.report(folder / "report.html", *_known(scored), command=command)
    summary = summarise_run(result, _scores(result, scored))
    with replacing(folder / "summary.json") as beside:
        beside.write_text(json_text(summary) + "\n")
    return summary


def _known(scored: Scorable) -> tuple[Tensor | None, Tensor | None]:
    """Labels and mask, where there is a node to score."""
    return (scored.labels, scored.mask) if scored.number else (None, None)


def _scores(result: Adaptation, scored: Scorable) -> dict[str, Any]:
    before = after = None
    if scored.number:
        before, after = (
            evaluate(each.cpu(), scored.labels, scored.mask).accuracy
            for each in (result.labels_before, result.labels)
        )
    return score_entries(scored, before, after)


def score_entries(scored: Scorable, before: float | None, after: float | None) -> dict[str, Any]:
    """What summary.json says of scores: accuracies, over how many nodes, and what was left out."""
    return {
        "accuracy_before": before,
        "accuracy_after": after,
        "scored_nodes": scored.number,
        "score_remarks": list(scored.remarks),
    }


def summarise_run(result: Adaptation, scores: Mapping[str, Any]) -> dict[str, Any]:
    """The content of summary.json, with what `score_entries` gives."""
    tried = result.decision.candidates if result.decision else ()
    return {
        "status": str(result.status),
        "meaning": result.sentence,
        "candidates": [asdict(one) for one in tried],
        **result.settings,
        "pic_before": result.pic_before,
        "pic_after": result.pic_after,
        "gamma_before": result.gamma_before.tolist(),
        "gamma_after": result.gamma.tolist(),
        **scores,
        "labels_changed": result.changed,
        "seconds": result.seconds,
        "versions": versions(),
    }


def write_history(result: Adaptation, path: Path) -> None:
    """One line per round, as CSV."""
    rows = result.history.rows()
    with replacing(path) as beside, open(beside, "w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0] if rows else ("round", "loss")))
        writer.writeheader()
        writer.writerows(rows)
