"""What the program asks of an engine."""

import abc
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

Batches = Iterator[pa.RecordBatch]
RowsFunction = Callable[[Batches], Batches]
"""Maps batches of rows to batches of other rows; it is sent to the processes of a cluster."""


class Engine(abc.ABC):
    """Runs SQL on tables of its own and of the caller's.

    Names of tables are whole: as `view`, `table` and `mapped` return them, they stand in SQL.
    """

    @abc.abstractmethod
    def read(self, argument: str, source: Any) -> str:
        """A table of the caller's: the path of files, the name of a table, or an object."""

    @abc.abstractmethod
    def view(self, name: str, query: str) -> str:
        """A query by name."""

    @abc.abstractmethod
    def table(self, name: str, query: str) -> str:
        """The rows of a query, kept until they are dropped."""

    @abc.abstractmethod
    def mapped(
        self, name: str, query: str, function: RowsFunction, schema: pa.Schema, width: int
    ) -> str:
        """Rows of a query mapped to others, to be read once.

        Args:
            name: of the result.
            query: its input.
            function: applied to batches.
            schema: of the output.
            width: numbers in a row of the input.
        """

    @abc.abstractmethod
    def drop(self, *names: str) -> None:
        """Forget tables."""

    @abc.abstractmethod
    def fetch(self, query: str) -> pa.Table:
        """The rows of a query, taken home."""

    @abc.abstractmethod
    def write(self, query: str, out: str) -> None:
        """Rows to Parquet, whole or not at all."""

    @abc.abstractmethod
    def close(self) -> None:
        """Drop every table of this run."""

    @staticmethod
    @abc.abstractmethod
    def quoted(column: str) -> str:
        """A column's name in SQL."""

    @staticmethod
    @abc.abstractmethod
    def number_of(text: str) -> str:
        """A number from 0 to 2^32 − 1 by the first digits of a text's MD5, the same everywhere."""

    @staticmethod
    @abc.abstractmethod
    def mixed(first: str, second: str) -> str:
        """A hash of two values in 32 bits with a sign, as the engine makes it."""

    def columns(self, table: str) -> dict[str, pa.DataType]:
        """Types by name."""
        schema = self.fetch(f"select * from {table} limit 0").schema
        return dict(zip(schema.names, schema.types, strict=True))

    def row(self, query: str) -> dict[str, Any]:
        """The only row of a query."""
        (row,) = self.fetch(query).to_pylist()
        return dict(row)


def first_line(error: Exception) -> str:
    """Of a message."""
    return str(error).partition("\n")[0]
