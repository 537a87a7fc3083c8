"""What `matcha adapt --nodes … --edges …` does: a run on tables, into a folder."""

import json
from pathlib import Path

from matcha_gnn.errors import InvalidArgumentError, InvalidFileError
from matcha_gnn.io.files import output_folder
from matcha_gnn.tables.answer import question_rows, write_questions
from matcha_gnn.tables.api import adapt, estimate

ANSWERS, QUESTIONS, REPORT, SUMMARY = (
    *("answers.parquet", "questions.csv", "report.html", "summary.json"),
)


def adapt_command(
    nodes: str,
    edges: str,
    source: Path,
    output: Path,
    *,
    memory: str = "2GB",
    id: str = "id",
    features: str = "x",
    probs: str = "probs",
    undirected: bool = False,
    ask: int | None = None,
    answers: Path | None = None,
    force: bool = False,
    as_json: bool = False,
) -> tuple[str, bool]:
    """Adapt to a graph in files, and write answers, a page and figures into a folder.

    Args:
        nodes: see `tables.adapt`.
        edges: likewise.
        source: file of the source summary.
        output: folder: answers.parquet, report.html, summary.json, and questions.csv with `ask`.
        memory: the most that may be resident.
        id: column of ids.
        features: a column of arrays, or several names with commas between.
        probs: likewise.
        undirected: every edge stands for both directions.
        ask: write so many questions.
        answers: a file of questions with labels filled in; they decide.
        force: replace the files of an earlier run.
        as_json: return figures in place of sentences.

    Returns:
        What to print, and whether the features cannot be what the source's are.
    """
    folder = output_folder(output)
    if any(folder.iterdir()) and not force:
        raise InvalidFileError("output folder", f"{folder} (not empty)", "another, or --force")
    number = _number_of_questions(ask, answers, folder / QUESTIONS)
    with adapt(
        nodes,
        edges,
        source=str(source),
        out=str(folder / ANSWERS),
        memory=memory,
        id=id,
        features=_columns(features),
        probs=_columns(probs),
        undirected=undirected,
    ) as answer:
        if number:
            questions = answer.ask(number)
            if answers is None:
                write_questions(questions, folder / QUESTIONS)
            else:
                answer.answer(answers)
        answer.report(folder / REPORT)
        answer.to_json(folder / SUMMARY)
        said = [answer.summary()]
        if number and answers is None:
            file = folder / QUESTIONS
            again = f"run this again with --answers {file} --force in place of --ask"
            said.append(f"{number} questions: fill in the column label of {file}, then {again}")
        said.append(f"wrote {folder / ANSWERS}")
        if as_json:
            said = [(folder / SUMMARY).read_text().strip()]
        return "\n".join(said), answer.decision.broken


def estimate_command(
    nodes: str,
    edges: str,
    source: Path,
    *,
    memory: str = "2GB",
    id: str = "id",
    features: str = "x",
    probs: str = "probs",
    undirected: bool = False,
    as_json: bool = False,
) -> str:
    """The expected accuracy of the predictions in a table; arguments as in `adapt_command`.

    Returns:
        What to print.
    """
    found = estimate(
        nodes,
        edges,
        source=str(source),
        memory=memory,
        id=id,
        features=_columns(features),
        probs=_columns(probs),
        undirected=undirected,
    )
    if as_json:
        return json.dumps(found._asdict())
    return f"{found.value:.1%} (90% interval {found.low:.1%} to {found.high:.1%})"


def _columns(names: str) -> str | list[str]:
    """A column, or several with commas between.

    Example:
        >>> _columns("x"), _columns("age, income")
        ('x', ['age', 'income'])
    """
    several = [name.strip() for name in names.split(",")]
    return several if len(several) > 1 else several[0]


def _number_of_questions(ask: int | None, answers: Path | None, questions: Path) -> int:
    """How many to ask; those that were answered are drawn again, as the first of the same order."""
    if answers is not None:
        if ask is not None:
            raise InvalidArgumentError("ask", ask, "none with answers")
        return len(question_rows(answers))
    if ask is not None and questions.exists():
        labelled = sum(bool(row["label"].strip()) for row in question_rows(questions))
        if labelled:
            allowed = f"another folder, or --answers {questions}"
            raise InvalidFileError("output folder", f"{labelled} answers in {questions}", allowed)
    return ask or 0
