"""Messages that the documentation explains are messages of the code."""

import ast
import re
from pathlib import Path

import matcha_gnn as mg
from matcha_gnn import errors

PACKAGE = Path(mg.__file__).parent
PAGE = (Path(__file__).parents[1] / "docs" / "troubleshooting.md").read_text()
ROWS = [line for line in PAGE.splitlines() if line.startswith("| `")]
MESSAGES = [re.match(r"\| `([^`]+)` \|", row)[1] for row in ROWS if row.count("|") == 4]


def strings(path):
    """Every text of a file; what an f-string fills in is left out."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            parts = (v.value if isinstance(v, ast.Constant) else "\0" for v in node.values)
            yield "".join(parts)


def pieces(message):
    """What is the same in every case: the texts between `…`, `: got ` and `; allowed: `."""
    found = (piece.strip(" ;") for piece in re.split(r"…|: got |; allowed: ", message))
    return [piece for piece in found if re.search(r"\w", piece)]


def test_every_quoted_message_is_one_of_the_code():
    known = "\n".join(text for path in sorted(PACKAGE.rglob("*.py")) for text in set(strings(path)))
    missing = {m: piece for m in MESSAGES for piece in pieces(m) if piece not in known}
    assert len(MESSAGES) > 60
    assert not missing


def test_every_error_is_in_the_table():
    kinds = [
        name
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, errors.MatchaError | Warning)
    ]
    assert len(kinds) >= 8
    assert [name for name in kinds if f"`{name}`" not in PAGE] == []
