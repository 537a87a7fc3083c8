"""What commands print, and which folders they may write to."""

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from rich.text import Text

from matcha_gnn.alarms import Severity
from matcha_gnn.cli import console
from matcha_gnn.cli.outputs import ANSWER, CHANGED, PAGE, PREDICTIONS
from matcha_gnn.errors import InvalidFileError
from matcha_gnn.io.questionfiles import PAGE as QUESTIONS_PAGE
from matcha_gnn.io.questionfiles import QUESTIONS, kept_answers

BROKEN = 3
"""Exit code where the features cannot be what the source's are."""
STYLES = {
    Severity.GOOD: "green",
    Severity.NEUTRAL: "default",
    Severity.WARNING: "yellow",
    Severity.ALARM: "bold red",
}


def require_free(folder: Path, force: bool, own: Collection[str] = ()) -> None:
    """Refuse a folder that is not empty, unless its files may be replaced.

    Args:
        folder: to write; need not exist.
        force: whether --force was given.
        own: names that the folder may hold all the same.
    """
    if not os.path.isdir(folder):
        return
    if force:
        say_kept(folder)
    elif any(path.name not in own for path in folder.iterdir()):
        allowed = "a new or an empty folder, or --force to replace the files of an earlier run"
        raise InvalidFileError("output folder", f"{folder} (not empty)", allowed)


def say_kept(folder: Path, used: Collection[int] = ()) -> None:
    """Say where typed answers stay that were not used, if there are any."""
    kept = kept_answers(folder, used)
    if kept is not None:
        console.say(f"the answers in {folder / QUESTIONS} are kept as {kept}")


def print_run(summary: Mapping[str, Any], folder: Path, page: bool) -> None:
    """What a run did, and where its files are."""
    print_summary(summary)
    files = f"{PREDICTIONS}, {CHANGED}"
    if summary["answer_file"]:
        console.out.print(Text(f"Written to {folder}: {files}, {ANSWER}, …"))
    else:
        why = summary["no_answer_file"]
        console.out.print(Text(f"Written to {folder}: {files}, …; no {ANSWER}: {why}"))
    if page:
        console.point_to(folder / PAGE)


def print_summary(summary: Mapping[str, Any]) -> None:
    """What an adaptation did, as a table and a line."""
    title = summary["metric_title"]
    rows = [
        *_percent("accuracy", summary["accuracy_before"], summary["accuracy_after"]),
        *_percent(title, summary["metric_before"], summary["metric_after"]),
        *_percent(f"estimated {title}", summary["expected_before"], summary["expected_after"]),
        *_hop_weights(summary),
    ]
    alarm = "ALARM, " if summary["severity"] == Severity.ALARM else ""
    around = f", around {summary['method']}" if summary.get("method", "erm") != "erm" else ""
    if rows:
        console.print_rows(f"{alarm}{summary['status']}{around}", ["", "before", "after"], rows)
    for remark in summary["score_remarks"]:
        console.out.print(Text(remark))
    console.out.print(Text(summary["meaning"], style=STYLES[summary["severity"]]))
    if "labels changed" not in summary["meaning"]:
        share = f"{summary['labels_changed']:.1%} of labels changed"
        console.out.print(f"{share}: accuracy cannot have moved by more.")


def _percent(name: str, before: float | None, after: float | None) -> list[list[str]]:
    """A row in percent, where there is something to show."""
    if before is None or after is None:
        return []
    return [[name, f"{before:.1%}", f"{after:.1%}"]]


def _hop_weights(summary: Mapping[str, Any]) -> list[list[str]]:
    """The loss and γ, where a strategy has moved them."""
    before, after = summary.get("gamma_before"), summary.get("gamma_after")
    if before == after:
        return []
    pairs = enumerate(zip(before or (), after or (), strict=True))
    pic = [f"{summary[key]:.4f}" for key in ("pic_before", "pic_after")]
    return [["PIC loss", *pic], *([f"γ {k}", f"{a:+.3f}", f"{b:+.3f}"] for k, (a, b) in pairs)]


def print_questions(folder: Path, number: int, page: bool) -> None:
    """Say where the questions are and what to do with them."""
    where = f"Answer the {number} questions on {folder / QUESTIONS_PAGE}, or in"
    where = where if page else f"Answer the {number} questions: fill in"
    console.out.print(Text(f"{where} the column label of {folder / QUESTIONS}. Then:"))
    console.out.print(Text(f"matcha answer {folder} answers.csv"), soft_wrap=True)
