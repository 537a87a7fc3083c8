"""Spark: by a session of the caller's."""

import secrets
from pathlib import Path
from typing import Any

import pyarrow as pa

from matcha_gnn.errors import InvalidFileError
from matcha_gnn.tables.engines.base import Engine, RowsFunction, first_line


class Spark(Engine):
    """Temporary views and cached tables of a session; the functions run in its Python workers.

    They need matcha-gnn installed there.

    Args:
        session: a SparkSession.
    """

    def __init__(self, session: Any) -> None:
        self.session, self.home = session, f"matcha_{secrets.token_hex(4)}"
        self.names: set[str] = set()

    def read(self, argument: str, source: Any) -> str:
        """See `Engine`."""
        from pyspark.errors import PySparkException

        try:
            if not isinstance(source, str | Path):
                frame = source
            elif any(mark in str(source) for mark in "/*") or str(source).endswith(".parquet"):
                frame = self.session.read.parquet(str(source))
            else:
                frame = self.session.table(str(source))
            return self._named(f"given_{argument}", frame)
        except (PySparkException, AttributeError) as error:
            allowed = "a path of Parquet files, the name of a table, or a DataFrame of Spark"
            raise InvalidFileError(argument, first_line(error), allowed) from error

    def _named(self, name: str, frame: Any) -> str:
        full = f"{self.home}_{name}"
        frame.createOrReplaceTempView(full)
        self.names.add(full)
        return full

    def view(self, name: str, query: str) -> str:
        """See `Engine`."""
        return self._named(name, self.session.sql(query))

    def table(self, name: str, query: str) -> str:
        """See `Engine`."""
        full = self._named(name, self.session.sql(query))
        self.session.sql(f"cache table {full}")
        return full

    def mapped(
        self, name: str, query: str, function: RowsFunction, schema: pa.Schema, width: int
    ) -> str:
        """See `Engine`."""
        from pyspark.sql.pandas.types import from_arrow_schema

        frame = self.session.sql(query).mapInArrow(function, from_arrow_schema(schema))
        return self._named(name, frame)

    def drop(self, *names: str) -> None:
        """See `Engine`."""
        for name in names:
            self.session.sql(f"uncache table if exists {name}")
            self.session.catalog.dropTempView(name)
            self.names.discard(name)

    def fetch(self, query: str) -> pa.Table:
        """See `Engine`."""
        return self.session.sql(query).toArrow()

    def write(self, query: str, out: str) -> None:
        """See `Engine`: into a folder, as Spark does."""
        beside = f"{out.rstrip('/')}.{secrets.token_hex(4)}"
        jvm = self.session._jvm
        path, new = (jvm.org.apache.hadoop.fs.Path(each) for each in (out, beside))
        files = path.getFileSystem(self.session._jsc.hadoopConfiguration())
        try:
            self.session.sql(query).write.parquet(beside)
            files.delete(path, True)
            if not files.rename(new, path):
                raise InvalidFileError("out", f"{out} (not renamed)", "a folder that can be made")
        finally:
            files.delete(new, True)

    def close(self) -> None:
        """See `Engine`."""
        self.drop(*self.names)

    @staticmethod
    def quoted(column: str) -> str:
        """See `Engine`."""
        return "`" + column.replace("`", "``") + "`"

    @staticmethod
    def number_of(text: str) -> str:
        """See `Engine`."""
        return f"cast(conv(substr(md5({text}), 1, 8), 16, 10) as bigint)"

    @staticmethod
    def mixed(first: str, second: str) -> str:
        """See `Engine`."""
        return f"shiftright(xxhash64({first}, {second}), 32)"
