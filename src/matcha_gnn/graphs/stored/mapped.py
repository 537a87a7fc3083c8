"""Arrays in files, read in blocks of rows whose pages are released after use.

Mapped pages count as resident memory although the system could reclaim them at any time, so they
are released to stay within a memory limit. Reads come from the page cache where possible.
"""

import math
import mmap
from collections.abc import Iterator, Sequence
from pathlib import Path
from tokenize import TokenError
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy
from numpy.typing import DTypeLike, NDArray

from matcha_gnn.errors import InvalidFileError
from matcha_gnn.io.files import existing_file, unwritten

UNREADABLE = (OSError, ValueError, TokenError)
"""What NumPy raises for the header of a file that is no array file."""
_PAGE = mmap.PAGESIZE
# Reading a page beyond the end of a truncated file would kill the process: the size is checked
# before.


class MappedArray:
    """A .npy file, read only.

    Args:
        path: the file.
        shape: expected in its header.
        dtype: expected in its header.

    Raises:
        InvalidFileError: missing, cut short, or another array.
    """

    def __init__(self, path: Path, shape: Sequence[int], dtype: DTypeLike) -> None:
        self.path, self.shape, self.dtype = path, tuple(shape), np.dtype(dtype)
        offset = self._checked_offset()
        # Copy on write, as torch does not accept read-only arrays; it is never written.
        self.array = np.memmap(path, self.dtype, "c", offset, self.shape)
        self._map: mmap.mmap = self.array._mmap  # type: ignore[attr-defined]
        self._offset, self._row_bytes = offset, self.array[:1].nbytes

    def _checked_offset(self) -> int:
        wanted = f"{self.dtype} {list(self.shape)}"
        existing_file(self.path, "store")
        try:
            with open(self.path, "rb") as file:
                version = npy.read_magic(file)
                read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
                shape, fortran, dtype = read(file)
                offset, size = file.tell(), file.seek(0, 2)
        except UNREADABLE as error:
            reason = getattr(error, "strerror", None) or "not an array file"
            raise InvalidFileError("store", f"{self.path} ({reason})", wanted) from error
        if (shape, dtype, fortran) != (self.shape, self.dtype, False):
            raise InvalidFileError("store", f"{self.path} ({dtype} {list(shape)})", wanted)
        if size != offset + dtype.itemsize * math.prod(shape):
            raise InvalidFileError("store", f"{self.path} (cut short: {size:,} bytes)", wanted)
        return int(offset)

    def rows(self, start: int, stop: int) -> NDArray[Any]:
        """A view of some rows; their pages stay until `drop`."""
        return np.asarray(self.array[start:stop])

    def drop(self, start: int, stop: int) -> None:
        """Release the pages of some rows, except a last page that further rows share."""
        self._advise(mmap.MADV_DONTNEED, start, stop)

    def ahead(self, start: int, stop: int) -> None:
        """Prefetch rows from the disk, without waiting."""
        self._advise(mmap.MADV_WILLNEED, start, min(stop, self.shape[0]))

    def blocks(self, size: int) -> Iterator[tuple[slice, NDArray[Any]]]:
        """Rows and a view of them, block by block; a view is valid until the next one."""
        for start in range(0, self.shape[0], size):
            stop = min(start + size, self.shape[0])
            self.ahead(stop, stop + size)
            yield slice(start, stop), self.rows(start, stop)
            self.drop(start, stop)

    def _advise(self, what: int, start: int, stop: int) -> None:
        first = (self._offset + start * self._row_bytes) // _PAGE * _PAGE
        last = self._offset + stop * self._row_bytes
        # A partly read page is still in use, except the file's last one.
        if stop < self.shape[0]:
            last = last // _PAGE * _PAGE
        if last > first:
            self._map.madvise(what, first, last - first)


def append(file: BinaryIO, array: NDArray[Any]) -> None:
    """Write the numbers of an array at the end of a file.

    Raises:
        InvalidFileError: there is no room.
    """
    try:
        array.tofile(file)
    except OSError as error:
        raise unwritten(file.name, error) from error


class ArrayWriter:
    """Writes a .npy file from its first row to its last."""

    def __init__(self, path: Path, shape: Sequence[int], dtype: DTypeLike) -> None:
        self._file = open(path, "wb")  # noqa: SIM115 (closed by `close`)
        self._shape, self._dtype = tuple(shape), np.dtype(dtype)
        self._write_header()

    def _write_header(self) -> None:
        described = {"descr": npy.dtype_to_descr(self._dtype), "fortran_order": False}
        npy.write_array_header_1_0(self._file, {**described, "shape": self._shape})

    def set_rows(self, number: int) -> None:
        """Correct the number of rows in the header, whose length does not depend on it."""
        self._shape = (number, *self._shape[1:])
        self._file.seek(0)
        self._write_header()

    def write(self, rows: NDArray[Any]) -> None:
        """Append rows.

        Raises:
            InvalidFileError: there is no room.
        """
        append(self._file, np.ascontiguousarray(rows, self._dtype))

    def close(self) -> None:
        """End the file."""
        self._file.close()

    def __enter__(self) -> "ArrayWriter":
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()
