"""Answers as they come, from Python or from a CSV file; what is wrong with them in one line."""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from matcha_gnn.errors import InvalidArgumentError, InvalidFileError, require_kind
from matcha_gnn.io.files import existing_file
from matcha_gnn.questions.questions import FINGERPRINT, Questions

NAMED = 5
"""Nodes or classes that an error names at most."""
DELIMITERS = ",;\t"
"""Spreadsheets of some countries write semicolons."""


def checked_answers(answers: object, questions: Questions) -> dict[int, int]:
    """Classes by node.

    Raises:
        InvalidArgumentError: no answers, nodes that were not asked, what is no class, or an answer
            that contradicts an earlier one.
    """
    allowed = "a dictionary of classes by node, {7: 1}, or a CSV file"
    require_kind("answers", answers, Mapping, allowed)
    assert isinstance(answers, Mapping)
    if not answers:
        raise InvalidArgumentError("answers", "none", "at least one")
    found = dict[int, int]()
    for node, label in answers.items():
        number = _asked_node("answers", node, questions)
        given = class_number(f"answers of node {number}", label, questions.classes)
        _require_same(f"answers of node {number}", number, given, questions)
        found[number] = given
    return found


def read_answers(path: object, questions: Questions) -> dict[int, int]:
    """Classes by node from a CSV file with the columns node and label; other columns are ignored.

    An empty label is no answer. A class is given by its name or its number. A column of
    fingerprints, as in a file of questions, is compared with the graph's.

    Raises:
        InvalidArgumentError: as in `checked_answers`, with the number of the line.
        InvalidFileError: the file cannot be read, lacks a column, has no answer, or belongs to
            another graph.
    """
    file = existing_file(str(path), "answers")
    found, lines = dict[int, int](), dict[int, int]()
    for line, row in answer_rows(file):
        where = f"{file.name}, line {line}"
        graph, label = row.get(FINGERPRINT, ""), row["label"]
        if graph and graph != questions.fingerprint:
            allowed = f"answers about the graph {questions.fingerprint}"
            raise InvalidFileError(where, f"the graph {graph}", allowed)
        if not label:
            continue
        node = _asked_node(where, _whole(row["node"]), questions)
        given = class_number(where, _whole(label, questions.classes), questions.classes)
        _require_same(where, node, given, questions)
        if found.get(node, given) != given:
            got = f"class {questions.classes[given]} of node {node}"
            before = f"class {questions.classes[found[node]]}, as in line {lines[node]}"
            raise InvalidArgumentError(where, got, before)
        found[node], lines[node] = given, line
    if not found:
        raise InvalidFileError("answers", f"{file} (no answer)", "a label for at least one node")
    return found


def class_number(argument: str, label: object, classes: Sequence[str]) -> int:
    """A class by its number or its name.

    Example:
        >>> class_number("label", "spam", ["ham", "spam"]), class_number("label", 0, ["0", "1"])
        (1, 0)
    """
    if isinstance(label, str) and label in classes:
        return classes.index(label)
    whole = isinstance(label, int | np.integer) and not isinstance(label, bool)
    if whole and label in range(len(classes)):
        return int(label)  # type: ignore[call-overload,no-any-return]
    allowed = f"classes 0 to {len(classes) - 1}"
    if list(classes) != [str(each) for each in range(len(classes))]:
        shown = ", ".join(classes[:NAMED]) + (", …" if len(classes) > NAMED else "")
        allowed += f", or their names: {shown}"
    raise InvalidArgumentError(argument, repr(label), allowed)


def answer_rows(file: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """Lines of a CSV file by number, as stripped texts by lower-case column.

    Raises:
        InvalidFileError: the file is no text, or has no column node or label.
    """
    try:
        text = file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidFileError("answers", f"{file} (not UTF-8)", "a CSV file") from error
    head = text.partition("\n")[0]
    delimiter = max(DELIMITERS, key=head.count)
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter, restval="")
    names = [str(name).strip().lower() for name in reader.fieldnames or ()]
    for needed in ("node", "label"):
        if needed not in names:
            allowed = "a CSV file with the columns node and label"
            raise InvalidFileError("answers", f"{file} (no column {needed!r})", allowed)
    reader.fieldnames = names
    for row in reader:
        yield reader.line_num, {k: str(v).strip() for k, v in row.items() if k is not None}


def _whole(text: str, names: Sequence[str] = ()) -> int | str:
    """A number where a text is one and not a name."""
    return int(text) if text not in names and text.isdecimal() else text


def _asked_node(argument: str, node: object, questions: Questions) -> int:
    whole = isinstance(node, int | np.integer) and not isinstance(node, bool)
    if whole and node in questions.asked:
        return int(node)  # type: ignore[call-overload,no-any-return]
    some = ", ".join(map(str, questions.asked[:NAMED].tolist()))
    rest = ", …" if len(questions.asked) > NAMED else ""
    raise InvalidArgumentError(argument, f"node {node!r}", f"nodes that were asked: {some}{rest}")


def _require_same(argument: str, node: int, given: int, questions: Questions) -> None:
    """Refuse a class other than that of an earlier answer."""
    before = questions.answers.get(node, given)
    if before != given:
        got = f"class {questions.classes[given]}, answered before"
        raise InvalidArgumentError(argument, got, f"class {questions.classes[before]}")
