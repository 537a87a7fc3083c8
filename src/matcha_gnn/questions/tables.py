"""What is known of the nodes beside the graph, from a CSV file, to show it with the questions."""

import csv
from pathlib import Path
from typing import NamedTuple

from matcha_gnn.errors import InvalidFileError
from matcha_gnn.io.files import existing_file


class NodeTable(NamedTuple):
    """Names of the nodes, or None, and other columns by name; one entry for each node."""

    names: list[str] | None
    columns: dict[str, list[str]]


def read_table(path: str | Path, num_nodes: int) -> NodeTable:
    """Read a CSV file with a line for each node.

    Lines are in the order of the nodes, or have the node's number in a column `node`, and may then
    be fewer. A column `name` names the nodes.

    Raises:
        InvalidFileError: the file cannot be read, or its lines do not fit the graph.
    """
    file = existing_file(path, "table")
    try:
        with open(file, newline="", encoding="utf-8-sig") as opened:
            rows = list(csv.DictReader(opened, restval=""))
    except (UnicodeDecodeError, csv.Error) as error:
        raise InvalidFileError("table", f"{file} (not CSV in UTF-8)", "a CSV file") from error
    places = _places(file, rows, num_nodes)
    columns = dict[str, list[str]]()
    for name in (name for name in (rows[0] if rows else ()) if name and name != "node"):
        values = columns[name] = [""] * num_nodes
        for place, row in zip(places, rows, strict=True):
            values[place] = row[name]
    return NodeTable(columns.pop("name", None), columns)


def _places(file: Path, rows: list[dict[str, str]], num_nodes: int) -> list[int]:
    """The node of each line."""
    if rows and "node" in rows[0]:
        for line, row in enumerate(rows, 2):
            if not (row["node"].isdecimal() and int(row["node"]) < num_nodes):
                got = f"{file}, line {line}: node {row['node']!r}"
                raise InvalidFileError("table", got, f"nodes 0 to {num_nodes - 1}")
        return [int(row["node"]) for row in rows]
    if len(rows) != num_nodes:
        allowed = f"a line for each of {num_nodes} nodes, or a column node"
        raise InvalidFileError("table", f"{file} ({len(rows)} lines)", allowed)
    return list(range(num_nodes))
