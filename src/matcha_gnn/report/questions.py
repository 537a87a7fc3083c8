"""The page on which a person answers questions."""

from itertools import zip_longest
from pathlib import Path

from matcha_gnn.questions.questions import FINGERPRINT, Questions
from matcha_gnn.report.template import render, write

KEYS = "0123456789abcdefghijklmnopqrstuvwxyz"
"""Keys of the classes in their order, from 1 on where classes have names; others have none."""


def write_questions(questions: Questions, path: str | Path) -> None:
    """Write questions as one HTML file that works offline; see `Questions.to_html`."""
    write(render_questions(questions), path)


def render_questions(questions: Questions) -> str:
    """The page as text."""
    numbered = questions.classes == tuple(map(str, range(len(questions.classes))))
    keys = KEYS if numbered else KEYS[1:]
    classes = list(zip_longest(questions.classes, keys[: len(questions.classes)], fillvalue=""))
    return render(
        "questions.html.j2",
        questions=questions,
        classes=classes,
        column=FINGERPRINT,
    )
