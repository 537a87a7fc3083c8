"""Class probabilities that were made elsewhere, and sets of nodes, from files."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matcha_gnn.errors import InvalidFileError
from matcha_gnn.io.archives import Arrays
from matcha_gnn.io.files import existing_file

ALLOWED = "class probabilities [N, C], a row for each node, in a .npy, .npz, .csv or .parquet file"
NAME, NODE = "probs", "node"


def read_probs(path: Path) -> NDArray[Any]:
    """Read numbers [N, C]; whether they are probabilities is seen where they are used.

    An .npz has one array, or one named probs. A .csv or .parquet file has a column for each class,
    and may have a column node with the numbers of the nodes; the latter may have one column of
    lists instead.

    Raises:
        InvalidFileError: no such file, or no such numbers in it.
    """
    readers = {".npy": _npy, ".npz": _npz, ".csv": _csv, ".parquet": _parquet}
    read = readers.get(path.suffix)
    if read is None:
        raise InvalidFileError("--probs", path, ALLOWED)
    existing_file(path, "--probs")
    try:
        return read(path)
    except InvalidFileError:
        raise
    # Bytes that are no such file fail in any way, whatever reads them.
    except Exception as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise InvalidFileError("--probs", f"{path} ({reason})", ALLOWED) from error


def read_nodes(path: Path) -> NDArray[Any]:
    """A mask or indices of nodes from a .npy file.

    Raises:
        InvalidFileError: no such file.
    """
    existing_file(path, "--trained")
    try:
        return _npy(path)
    except (ValueError, OSError, EOFError) as error:
        got = f"{path} (no array, or a pickled one)"
        raise InvalidFileError("--trained", got, "a mask or indices in a .npy file") from error


def _npy(path: Path) -> NDArray[Any]:
    array: NDArray[Any] = np.load(path, allow_pickle=False)
    return array


def _npz(path: Path) -> NDArray[Any]:
    arrays = Arrays(path)
    names = arrays.names
    if NAME not in names and len(names) != 1:
        raise ValueError(f"no array {NAME} among {', '.join(names)}")
    return arrays.read(NAME if NAME in names else names[0])


def _csv(path: Path) -> NDArray[Any]:
    with open(path, newline="", encoding="utf-8-sig") as file:
        header, *lines = csv.reader(file)
    columns = zip(*lines, strict=True)
    return _by_node(dict(zip(header, (np.array(each, float) for each in columns), strict=True)))


def _parquet(path: Path) -> NDArray[Any]:
    try:
        from pyarrow import parquet
    except ModuleNotFoundError as error:
        got = f"{path} (needs pyarrow, which is not installed)"
        raise InvalidFileError("--probs", got, "pip install pyarrow, or a .npy file") from error
    table = parquet.read_table(path)
    columns = {name: table[name].to_pylist() for name in table.column_names}
    if NAME in columns:
        nodes = {NODE: np.array(columns[NODE])} if NODE in columns else {}
        rows = np.array(columns[NAME], float)
        return _by_node({**nodes, **{str(c): column for c, column in enumerate(rows.T)}})
    return _by_node({name: np.array(column, float) for name, column in columns.items()})


def _by_node(columns: dict[str, NDArray[Any]]) -> NDArray[Any]:
    """Columns side by side, in the order of the nodes where one says it."""
    nodes = columns.pop(NODE, None)
    rows = np.stack(list(columns.values()), 1)
    if nodes is None:
        return rows
    if not np.array_equal(np.sort(nodes), np.arange(len(rows))):
        raise ValueError(f"the column {NODE} does not have each of 0 to {len(rows) - 1} once")
    return rows[np.argsort(nodes)]
