"""Engines that run the tables' program: DuckDB inside this process, or a session of Spark.

Both read the same SQL of joins, sums and `order by … limit`. What differs is here: how files are
read, where a result is kept, how Arrow batches pass through a function, and three expressions.
"""

from typing import Any

from matcha_gnn.errors import InvalidArgumentError
from matcha_gnn.io.files import require_writable
from matcha_gnn.tables.engines.base import Batches, Engine
from matcha_gnn.tables.engines.duck import OWN_BYTES, DuckDB, bytes_of
from matcha_gnn.tables.engines.spark import Spark

__all__ = ["OWN_BYTES", "Batches", "Engine", "bytes_of", "engine_of"]


def engine_of(engine: Any, memory: str | None, out: str | None) -> Engine:
    """The engine that a caller means.

    Args:
        engine: None for DuckDB in this process, a connection of DuckDB, or a SparkSession.
        memory: the most that may be resident, such as "2GB"; only without an engine.
        out: beside it DuckDB puts what does not fit into memory.
    """
    if engine is None:
        return DuckDB.within("2GB" if memory is None else memory, out)
    kind = type(engine).__module__.partition(".")[0]
    allowed = "none where an engine is given, which has a limit of its own"
    if memory is not None:
        raise InvalidArgumentError("memory", memory, allowed)
    if kind == "pyspark":
        return Spark(engine)
    if kind in ("duckdb", "_duckdb"):
        if out is not None:
            require_writable(out)
        return DuckDB(engine)
    allowed = "a SparkSession, a connection of DuckDB, or None"
    raise InvalidArgumentError("engine", f"a {type(engine).__name__}", allowed)
