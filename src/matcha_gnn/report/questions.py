"""The page on which a person answers questions."""

from pathlib import Path

from matcha_gnn.questions.questions import FINGERPRINT, Questions
from matcha_gnn.report.template import render, write

KEYS = "123456789abcdefghijklmnopqrstuvwxyz"
"""Keys of the classes, in their order; classes beyond these have none."""


def write_questions(questions: Questions, path: str | Path) -> None:
    """Write questions as one HTML file that works offline; see `Questions.to_html`."""
    write(render_questions(questions), path)


def render_questions(questions: Questions) -> str:
    """The page as text."""
    classes = [
        (name, KEYS[number] if number < len(KEYS) else "")
        for number, name in enumerate(questions.classes)
    ]
    return render(
        "questions.html.j2",
        questions=questions,
        classes=classes,
        column=FINGERPRINT,
    )
