"""DuckDB: in this process, or by a connection of the caller's."""

import errno
import glob
import re
import secrets
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from matcha_gnn.errors import InvalidArgumentError, InvalidFileError, MatchaError, optional_imports
from matcha_gnn.io.files import lock, replacing, require_writable
from matcha_gnn.tables.engines.base import Batches, Engine, RowsFunction

OWN_BYTES = 1_050_000_000
"""Of the limit on memory, for Python, torch, batches on their way and what DuckDB does not count;
its own limit is the rest."""
LEAST_MEMORY = 1_500_000_000
BATCH_ENTRIES, BATCH_ROWS = 1 << 22, 100_000
"""Numbers and rows of a batch, at most."""


class DuckDB(Engine):
    """Tables in a database in memory that is attached to a connection, and spills to disk.

    Args:
        connection: of DuckDB.
        spill: of a connection that is made for the run; see `spill_folder`.
    """

    def __init__(self, connection: Any, spill: tuple[Path, IO[str]] | None = None) -> None:
        self.connection, self.home = connection, f"matcha_{secrets.token_hex(4)}"
        with _told():
            connection.execute(f"attach ':memory:' as {self.home}")
            # A stream of rows is read by one connection while the other inserts them.
            self.writer = connection.cursor()
        self._close = weakref.finalize(self, _end, connection, self.home, spill)

    @classmethod
    def within(cls, memory: str, out: str | None) -> "DuckDB":
        """In this process, which then holds no more memory than that."""
        with optional_imports("tables"):
            import duckdb
        limit = bytes_of(memory) - OWN_BYTES
        spill = spill_folder(out)
        config: dict[str, Any] = {
            "memory_limit": f"{limit // 1000}KB",
            "temp_directory": str(spill[0]),
            "preserve_insertion_order": "false",
        }
        return cls(duckdb.connect(config=config), spill)

    def read(self, argument: str, source: Any) -> str:
        """See `Engine`."""
        if not isinstance(source, str | Path):
            name = f"{self.home}_given_{argument}"
            try:
                self.connection.register(name, source)
            except Exception as error:
                allowed = "a path of Parquet or CSV files, the name of a table, or a data frame"
                raise InvalidFileError(argument, f"a {type(source).__name__}", allowed) from error
            return name
        name = str(source)
        if Path(name).is_dir():
            name = f"{name.rstrip('/')}/**/*.parquet"
        if any(mark in name for mark in "/.*"):
            name = "'" + name.replace("'", "''") + "'"
        with _told(argument):
            self.connection.sql(f"select * from {name} limit 0").to_arrow_table()
        return name

    def view(self, name: str, query: str) -> str:
        """See `Engine`."""
        # Of the connection, as what a caller registered there is seen by it alone.
        name = f"{self.home}_{name}"
        with _told():
            self.connection.execute(f"create or replace temp view {name} as {query}")
        return name

    def table(self, name: str, query: str) -> str:
        """See `Engine`."""
        full = f"{self.home}.{name}"
        with _told():
            self._execute(self._reader(query), f"create table {full} as {query}")
        return full

    def _execute(self, connection: Any, query: str) -> None:
        """In another thread: DuckDB itself looks for Ctrl-C only between tasks of its own."""
        with ThreadPoolExecutor(1) as pool:
            work = pool.submit(connection.execute, query)
            try:
                work.result()
            except KeyboardInterrupt:
                while not work.done():
                    self.connection.interrupt()
                    self.writer.interrupt()
                    wait([work], timeout=0.1)
                raise

    def _reader(self, query: str) -> Any:
        """The connection that can read what a query names."""
        return self.writer if f"{self.home}_mapped_" in query else self.connection

    def mapped(
        self, name: str, query: str, function: RowsFunction, schema: pa.Schema, width: int
    ) -> str:
        """See `Engine`."""
        name = f"{self.home}_mapped_{name}"
        rows = max(1, min(BATCH_ROWS, BATCH_ENTRIES // width))

        def batches() -> Batches:
            with _told():
                yield from function(iter(self.connection.sql(query).to_arrow_reader(rows)))

        self.writer.register(name, pa.RecordBatchReader.from_batches(schema, batches()))
        return name

    def drop(self, *names: str) -> None:
        """See `Engine`."""
        for name in names:
            self.connection.execute(f"drop table {name}")

    def fetch(self, query: str) -> pa.Table:
        """See `Engine`."""
        with _told():
            kept = self.table("fetched", query)
            rows = self.connection.sql(f"select * from {kept}").to_arrow_table()
        self.drop(kept)
        return rows

    def write(self, query: str, out: str) -> None:
        """See `Engine`."""
        with replacing(out) as beside, _told():
            quoted = str(beside).replace("'", "''")
            copy = f"copy ({query}) to '{quoted}' (format parquet)"
            self._execute(self._reader(query), copy)

    def close(self) -> None:
        """See `Engine`."""
        self._close()

    @staticmethod
    def quoted(column: str) -> str:
        """See `Engine`."""
        return '"' + column.replace('"', '""') + '"'

    @staticmethod
    def number_of(text: str) -> str:
        """See `Engine`."""
        return f"cast('0x' || substr(md5({text}), 1, 8) as bigint)"

    @staticmethod
    def mixed(first: str, second: str) -> str:
        """See `Engine`."""
        return f"cast(hash({first}, {second}) >> 32 as bigint)"


def _end(connection: Any, home: str, spill: tuple[Path, IO[str]] | None) -> None:
    """Drop a run's tables, and what it has on the disk."""
    if spill is None:
        connection.execute(f"detach {home}")
        return
    folder, held = spill
    connection.close()
    shutil.rmtree(folder, ignore_errors=True)
    held.close()


def spill_folder(out: str | None) -> tuple[Path, IO[str]]:
    """A new folder beside a file, and a locked file in it that says it is in use.

    Folders that killed runs left there are removed.

    Raises:
        InvalidFileError: nothing can be written there.
    """
    if out is None:
        beside, prefix = Path(tempfile.gettempdir()), ".matcha."
    else:
        require_writable(out)
        beside, prefix = Path(out).absolute().parent, f".{Path(out).name}."
    for left in beside.glob(f"{glob.escape(prefix)}*.spill"):
        with suppress(OSError), open(left / "lock", "r+") as file:
            lock(file.fileno(), wait=False)
            shutil.rmtree(left)
    folder = Path(tempfile.mkdtemp(prefix=prefix, suffix=".spill", dir=beside))
    held = open(folder / "lock", "w")  # noqa: SIM115 (open as long as the run)
    with suppress(OSError):
        lock(held.fileno(), wait=False)
    return folder, held


@contextmanager
def _told(argument: str = "nodes or edges") -> Iterator[None]:
    """What DuckDB refuses, in one line."""
    import duckdb

    try:
        yield
    except duckdb.OutOfMemoryException as error:
        raise MatchaError(
            f"memory: too little for this graph; more is needed, or more room on the disk for what "
            f"does not fit ({_line(error)})"
        ) from error
    except duckdb.IOException as error:
        if _number_of(error) in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT):
            raise InvalidFileError(
                "output", _line(error), "room on the disk for the work"
            ) from error
        raise InvalidFileError(argument, _line(error), "files that can be read") from error
    except duckdb.Error as error:
        raise InvalidFileError(argument, _line(error), "tables that DuckDB can read") from error


def _line(error: Exception) -> str:
    """The message inside, where DuckDB tells of one error in another as JSON."""
    inside = re.search(r'"exception_message":"((?:[^"\\]|\\.)*)"', str(error))
    return (inside[1] if inside else str(error)).partition("\n")[0]


def _number_of(error: Exception) -> int:
    """Of the system's error behind one of DuckDB; 0 where none is told."""
    number = re.search(r'"errno":"(\d+)"', str(error))
    if number:
        return int(number[1])
    return errno.ENOSPC if "No space left on device" in str(error) else 0


def bytes_of(memory: object) -> int:
    """Bytes in a limit on memory.

    Example:
        >>> bytes_of("2GB"), bytes_of("1500 MB")
        (2000000000, 1500000000)
    """
    units = {"MB": 10**6, "GB": 10**9, "TB": 10**12}
    text = str(memory).strip().upper()
    number, unit = text[:-2].strip(), text[-2:]
    allowed = f"a size of at least {LEAST_MEMORY / 1e9:g}GB, such as 4GB"
    try:
        size = int(float(number) * units[unit])
    except (KeyError, ValueError, OverflowError) as error:
        raise InvalidArgumentError("memory", memory, allowed) from error
    if size < LEAST_MEMORY:
        raise InvalidArgumentError("memory", memory, allowed)
    return size
