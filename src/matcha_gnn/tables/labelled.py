"""The labelled side in tables: taken home, and measured by the core."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch import Tensor

from matcha_gnn.errors import InvalidArgumentError, InvalidGraphError
from matcha_gnn.evidence.summarising import summarise_source
from matcha_gnn.evidence.summary import SourceSummary
from matcha_gnn.tables.engines import OWN_BYTES, bytes_of, engine_of
from matcha_gnn.tables.reading import Columns, read_graph
from matcha_gnn.tables.rows import improper, values_of

COPIES = 6
"""Times that rows and edges are in memory while they are measured."""


def summarise(
    nodes: Any,
    edges: Any,
    *,
    trained: str,
    label: str = "label",
    memory: str = "2GB",
    engine: Any = None,
    id: str = "id",
    features: Columns = "x",
    probs: Columns = "probs",
    undirected: bool = False,
) -> SourceSummary:
    """Summarise the labelled graph that a classifier was trained on, from tables.

    All of it is taken home, so it must fit the limit on memory; the summary is a few kilobytes.
    Probabilities cannot be made again on changed copies of the graph, as `mg.summarise_source` does
    with a network: in the simulated shifts they are as they are, so that the pool's weights and the
    errors of its estimates rest on features and edges that change around the same predictions.

    Args:
        nodes: as in `adapt`, with two columns more.
        edges: as in `adapt`.
        trained: column that is true for nodes that the classifier was trained on.
        label: column of classes, 0 to C − 1; null or below 0 where the class is not known.
        memory: the most that may be needed.
        engine: see `adapt`.
        id: see `adapt`.
        features: see `adapt`.
        probs: see `adapt`.
        undirected: see `adapt`.

    Raises:
        InvalidGraphError, InvalidFileError: bad input, with the first row that is wrong.
        InvalidArgumentError: it does not fit the memory.
    """
    limit = bytes_of(memory) - OWN_BYTES
    on = engine_of(engine, memory if engine is None else None, None)
    try:
        graph = read_graph(
            on,
            nodes,
            edges,
            id=id,
            features=features,
            probs=probs,
            sizes=(None, None),
            undirected=undirected,
            further={"label": label, "trained": trained},
        )
        first = on.fetch(f"select * from {graph.nodes} limit 1")
        sizes = [_width(first, name) for name in ("x", "probs")]
        number = int(on.row(f"select count(*) as rows from {graph.edges}")["rows"])
        needed = COPIES * (4 * graph.number * sum(sizes) + 16 * number)
        if needed > limit:
            allowed = f"about {(needed + OWN_BYTES) / 1e9:.1f}GB for this graph"
            raise InvalidArgumentError("memory", memory, allowed)
        rows = on.fetch(f"select * from {graph.nodes}").sort_by("id").combine_chunks()
        ends = on.fetch(f"select src, dst from {graph.edges}")
    finally:
        on.close()
    whole = rows.to_batches()[0]
    x, p = (_checked(whole, name, size) for name, size in zip(("x", "probs"), sizes, strict=True))
    known = whole.column("trained")
    if not pa.types.is_boolean(known.type):
        raise InvalidGraphError("trained", f"{trained} of type {known.type}", "true or false")
    places = [pc.index_in(ends.column(end), whole.column("id")) for end in ("src", "dst")]
    data = SimpleNamespace(
        x=torch.from_numpy(x),
        edge_index=torch.from_numpy(np.stack([each.to_numpy() for each in places])).long(),
        y=_labels(whole, label),
    )
    mask = torch.tensor(pc.fill_null(known, False).to_numpy(zero_copy_only=False))
    return summarise_source(torch.from_numpy(p), data, mask)


def _width(first: pa.Table, name: str) -> int:
    """Numbers in a row of a matrix."""
    if name in first.schema.names:
        return len(first.column(name)[0].as_py() or ())
    return sum(
        each.startswith(name) and each[len(name) :].isdecimal() for each in first.schema.names
    )


def _checked(rows: pa.RecordBatch, name: str, width: int) -> Any:
    """A matrix [N, width]; the first row that is wrong is refused."""
    values, problems = values_of(rows, name, width)
    if name == "probs":
        own = zip(problems, improper(values), strict=True)
        problems = [one or other or "" for one, other in own]
    place = next((place for place, problem in enumerate(problems) if problem), None)
    if place is not None:
        got = f"{problems[place]} of id {rows.column('id')[place].as_py()!r}"
        kind = "probabilities that sum to one" if name == "probs" else "finite features"
        raise InvalidGraphError("nodes", got, f"{width} {kind} in every row")
    return values


def _labels(rows: pa.RecordBatch, label: str) -> Tensor:
    """Classes, −1 where they are not known."""
    column = rows.column("label")
    if not pa.types.is_integer(column.type):
        raise InvalidGraphError("label", f"{label} of type {column.type}", "integers from 0")
    return torch.tensor(pc.fill_null(column, -1).to_numpy(zero_copy_only=False)).long()
