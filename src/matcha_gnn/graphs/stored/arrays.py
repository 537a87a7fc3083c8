"""The arrays of a store, checked block by block: all indices are within bounds."""

from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import xxhash
from numpy.typing import NDArray

from matcha_gnn.errors import InvalidFileError
from matcha_gnn.graphs.stored.mapped import MappedArray

CHECKED_BYTES = 4 << 20
"""Bytes of an array that are checked at a time."""


class StoreArrays(NamedTuple):
    """Features and matrix of a store, in its files.

    Attributes:
        x: features, [N, F].
        indptr: where the rows of P start, [N + 1].
        indices: columns of the entries of P.
        values: of the entries of P.
    """

    x: MappedArray
    indptr: MappedArray
    indices: MappedArray
    values: MappedArray

    @classmethod
    def opened(cls, folder: Path, meta: dict[str, Any]) -> Self:
        """Open the files, with shapes and types from the meta file."""
        nodes, entries = meta["num_nodes"], meta["num_entries"]
        return cls(
            MappedArray(folder / "x.npy", (nodes, meta["num_features"]), meta["x_dtype"]),
            MappedArray(folder / "indptr.npy", (nodes + 1,), "int64"),
            MappedArray(folder / "indices.npy", (entries,), "int32"),
            MappedArray(folder / "values.npy", (entries,), "float32"),
        )

    def check_rows(self) -> None:
        """Raise InvalidFileError unless row starts ascend from 0 to the number of entries."""
        path, entries, last = self.indptr.path, self.indices.shape[0], 0
        for rows, starts in self.indptr.blocks(_rows_at_once(self.indptr)):
            if rows.start == 0 and starts[0] != 0:
                raise _refused(path, f"starts at {starts[0]}", "starts at 0")
            if starts[0] < last or (starts[1:] < starts[:-1]).any():
                raise _refused(path, "row starts that descend", "row starts that ascend")
            last = int(starts[-1])
        if last != entries:
            raise _refused(path, f"ends at {last}", f"ends at the number of entries, {entries}")

    def fingerprint(self) -> str:
        """A hash of all arrays, whose columns and numbers are checked in the same read.

        Raises:
            InvalidFileError: see `check_block`.
        """
        digest = xxhash.xxh3_128()
        for array in self:
            for _, block in array.blocks(_rows_at_once(array)):
                self.check_block(array, block)
                digest.update(as_bytes(block))
        return digest.hexdigest()

    def check_block(self, array: MappedArray, block: NDArray[Any]) -> None:
        """Raise InvalidFileError for columns that are no nodes and for non-finite numbers.

        Args:
            array: one of these.
            block: some of its rows.
        """
        if array is self.indices:
            check_nodes(array.path, block, self.x.shape[0])
        elif array is not self.indptr and not all_finite(block):
            raise _refused(array.path, "NaN or infinite entries", "finite numbers")


def check_nodes(path: Path, numbers: NDArray[Any], num_nodes: int) -> None:
    """Raise InvalidFileError for numbers that are no nodes."""
    if not numbers.size:
        return
    low, high = int(numbers.min()), int(numbers.max())
    if low < 0 or high >= num_nodes:
        got = f"node number {low if low < 0 else high}"
        raise _refused(path, got, f"node numbers 0 to {num_nodes - 1}")


def all_finite(numbers: NDArray[Any]) -> bool:
    """Whether there is no NaN or infinity; a finite sum rules them out."""
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(numbers.sum()) or np.isfinite(numbers).all())


def as_bytes(block: NDArray[Any]) -> memoryview:
    """The bytes of an array, for a hash."""
    return np.ascontiguousarray(block).view(np.uint8).data


def array_hash(array: NDArray[Any]) -> str:
    """128-bit hash of type, shape and bytes."""
    digest = xxhash.xxh3_128(f"{array.dtype}{list(array.shape)}".encode())
    digest.update(as_bytes(array))
    return digest.hexdigest()


def _rows_at_once(array: MappedArray) -> int:
    return max(1, CHECKED_BYTES // array.rows(0, 1).nbytes)


def _refused(path: Path, got: str, allowed: str) -> InvalidFileError:
    return InvalidFileError("store", f"{path} ({got})", allowed)
