"""Messages along edges: as an expression of the engine, or by the core on batches, by classes.

500,000 edges between 50,000 nodes, DuckDB. Seconds are of processors, so that other work on the
machine counts little.

Run: python benchmarks/tables_messages.py   writes results/tables-messages.json
"""

import json
import resource
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa
import torch

from matcha_gnn.kernels.links import BeliefMessage
from matcha_gnn.tables import links
from matcha_gnn.tables.engines import Engine, engine_of
from matcha_gnn.tables.rows import Messages, columns, schema

RECORD = Path(__file__).parents[1] / "results" / "tables-messages.json"
CLASSES, NODES, EDGES, REPEATS = (2, 5, 10, 15, 20, 40), 50_000, 500_000, 3


def seconds(work: Callable[[], object]) -> float:
    """Of processors, the least of a few runs."""

    def used() -> float:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return usage.ru_utime + usage.ru_stime

    found = []
    for _ in range(REPEATS):
        start = used()
        work()
        found.append(used() - start)
    return min(found)


def expressed(on: Engine, state: str, message: BeliefMessage) -> None:
    on.drop(on.table("found", links.messages("edges", state, message.lift)))


def mapped(on: Engine, state: str, message: BeliefMessage) -> None:
    number = len(message.lift)
    ends, kind = links.ends("edges", state, number), schema(pa.int64(), number, "m")
    rows = on.mapped("messages", ends, Messages(message), kind, 2 * number)
    sums = ", ".join(f"sum({each}) as {each}" for each in columns("m", number))
    on.drop(on.table("found", f"select id, {sums} from {rows} group by id"))


def main() -> None:
    torch.manual_seed(0)
    on = engine_of(None, "4GB", None)
    end = f"cast(random() * {NODES - 1} as bigint)"
    on.connection.execute("select setseed(0.5)")
    on.connection.execute(
        f"create table edges as select {end} as src, {end} as dst from range({EDGES})"
    )
    rows = []
    for number in CLASSES:
        values = (f"random() as {name}" for each in "nfs" for name in columns(each, number))
        state = on.table(
            f"state{number}", f"select range as id, {', '.join(values)} from range({NODES})"
        )
        message = BeliefMessage(torch.rand(number, number, dtype=torch.float64))
        row = {"classes": number}
        for name, work in (("expression", expressed), ("batches", mapped)):
            row[name] = seconds(partial(work, on, state, message))
        on.drop(state)
        rows.append(row)
        print(row, flush=True)
    record = {"command": "python benchmarks/tables_messages.py", "seconds": rows}
    RECORD.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
