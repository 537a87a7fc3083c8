"""Nodes and edges as a caller has them, under the names that the program uses; bad input."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeAlias

import pyarrow as pa

from matcha_gnn.errors import InvalidArgumentError, InvalidGraphError, require_flag
from matcha_gnn.tables.engines import Engine
from matcha_gnn.tables.links import link_key, listed, node_key

Columns: TypeAlias = str | Sequence[str]
"""A column of arrays, or several columns of numbers."""


@dataclass(frozen=True)
class Graph:
    """A graph in tables of an engine.

    Attributes:
        engine: that has them.
        nodes: a view with id, x and probs; both are a column of arrays, or one column for each
            number, `x0` and so on.
        edges: a view with src and dst.
        links: the same without self loops.
        id_type: of Arrow; int64 or string.
        number: N.
        undirected: every edge has its reverse.
    """

    engine: Engine
    nodes: str
    edges: str
    links: str
    id_type: pa.DataType
    number: int
    undirected: bool

    @property
    def node_key(self) -> str:
        """By which nodes are drawn."""
        return node_key(self._numbered("id"))

    @property
    def link_key(self) -> str:
        """By which links are drawn."""
        return link_key(self._numbered("src"), self._numbered("dst"))

    @property
    def reciprocal(self) -> tuple[str, str]:
        """Hashes of an edge and of its reverse."""
        return self.engine.mixed("src", "dst"), self.engine.mixed("dst", "src")

    def _numbered(self, column: str) -> str:
        return column if pa.types.is_integer(self.id_type) else self.engine.number_of(column)


def read_graph(
    engine: Engine,
    nodes: Any,
    edges: Any,
    *,
    id: str,
    features: Columns,
    probs: Columns,
    sizes: tuple[int | None, int | None],
    undirected: bool,
    further: Mapping[str, str] = MappingProxyType({}),
) -> Graph:
    """Name the columns and check what can be checked without reading them all.

    Args:
        engine: that reads them.
        nodes: see `Engine.read`.
        edges: likewise.
        id: column of `nodes`.
        features: column or columns of `nodes`.
        probs: likewise.
        sizes: F and C of the source, where they are known.
        undirected: edges stand for both directions.
        further: other columns of `nodes` by the argument that names them.

    Raises:
        InvalidGraphError: a column that is missing or of another kind, ids that are null or twice
            there, edges to no node.
    """
    require_flag("undirected", undirected)
    given_nodes, given_edges = engine.read("nodes", nodes), engine.read("edges", edges)
    types, end_types = engine.columns(given_nodes), engine.columns(given_edges)
    names = [f"{engine.quoted(_present('nodes', types, id))} as id"]
    for argument, short, columns, width in (
        ("features", "x", features, sizes[0]),
        ("probs", "probs", probs, sizes[1]),
    ):
        names += _matrix(engine, argument, short, columns, width, types)
    for argument, column in further.items():
        names.append(f"{engine.quoted(_present(argument, types, column))} as {argument}")
    for end in ("src", "dst"):
        _present("edges", end_types, end)
    kind = _kind("nodes", id, types[id])
    for end in ("src", "dst"):
        if _kind("edges", end, end_types[end]) != kind:
            got = f"{end} of type {end_types[end]}"
            raise InvalidGraphError("edges", got, f"{kind}s, as the id of nodes")
    sql = {"integer": "bigint", "string": "string"}[kind]
    names[0] = f"cast({engine.quoted(id)} as {sql}) as id"
    view = engine.view("nodes", f"select {listed(*names)} from {given_nodes}")
    src, dst = (f"cast({end} as {sql})" for end in ("src", "dst"))
    both = f"select {src} as src, {dst} as dst from {given_edges}"
    if undirected:
        both += f" union all select {dst} as src, {src} as dst from {given_edges}"
    every = engine.view("edges", both)
    number = _check_ids(engine, view)
    _check_ends(engine, view, every, number, kind)
    links = engine.view("links", f"select src, dst from {every} where src <> dst")
    id_type = pa.int64() if kind == "integer" else pa.string()
    return Graph(engine, view, every, links, id_type, number, undirected)


def _present(argument: str, types: dict[str, pa.DataType], name: object) -> str:
    if not isinstance(name, str) or name not in types:
        raise InvalidGraphError(argument, f"no column {name!r}", f"one of {', '.join(types)}")
    return name


def _kind(argument: str, name: str, given: pa.DataType) -> str:
    if pa.types.is_integer(given):
        return "integer"
    if pa.types.is_string(given) or pa.types.is_large_string(given):
        return "string"
    raise InvalidGraphError(argument, f"{name} of type {given}", "integers or strings")


def _matrix(
    engine: Engine,
    argument: str,
    short: str,
    columns: Columns,
    width: int | None,
    types: dict[str, pa.DataType],
) -> list[str]:
    """Expressions for a column of arrays, or for several columns of numbers."""
    if isinstance(columns, str):
        given = types[_present(argument, types, columns)]
        lists = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
        if not any(each(given) for each in lists):
            numbers = "numbers" if width is None else f"{width} numbers"
            allowed = f"a column of arrays of {numbers}, or a list of columns"
            raise InvalidGraphError(argument, f"{columns} of type {given}", allowed)
        return [f"{engine.quoted(columns)} as {short}"]
    names = [_present(argument, types, each) for each in columns]
    if width is not None and len(names) != width:
        allowed = f"{width}, as many as the source has"
        raise InvalidArgumentError(argument, f"{len(names)} columns", allowed)
    for name in names:
        if not (pa.types.is_integer(types[name]) or pa.types.is_floating(types[name])):
            raise InvalidGraphError(argument, f"{name} of type {types[name]}", "numbers")
    return [f"{engine.quoted(name)} as {short}{k}" for k, name in enumerate(names)]


def _check_ids(engine: Engine, nodes: str) -> int:
    """The number of nodes; every id is there once."""
    counts = engine.row(f"select count(*) as rows, count(id) as ids from {nodes}")
    if not counts["rows"]:
        raise InvalidGraphError("nodes", "no rows", "at least one node")
    if counts["ids"] < counts["rows"]:
        got = f"{counts['rows'] - counts['ids']} rows with id null"
        raise InvalidGraphError("nodes", got, "an id in every row")
    twice = engine.fetch(
        f"select id, count(*) as rows from {nodes} group by id having count(*) > 1 "
        "order by id limit 1"
    ).to_pylist()
    if twice:
        got = f"id {twice[0]['id']!r} in {twice[0]['rows']} rows"
        raise InvalidGraphError("nodes", got, "every id once")
    return int(counts["rows"])


def _check_ends(engine: Engine, nodes: str, edges: str, number: int, kind: str) -> None:
    """Every edge joins two nodes."""
    missing = engine.fetch(
        f"select src, dst from {edges} where src is null or dst is null limit 1"
    ).to_pylist()
    if missing:
        got = f"an edge from {missing[0]['src']!r} to {missing[0]['dst']!r}"
        raise InvalidGraphError("edges", got, "src and dst in every row")
    if kind == "integer":
        own = engine.row(f"select min(id) as low, max(id) as high from {nodes}")
        ends = engine.row(
            "select min(least(src, dst)) as low, max(greatest(src, dst)) as high, "
            f"count(*) as rows from {edges}"
        )
        gapless = own["high"] - own["low"] + 1 == number
        inside = not ends["rows"] or (own["low"] <= ends["low"] and ends["high"] <= own["high"])
        if gapless and inside:
            return
    known = f"select id from {nodes}"
    for end in ("src", "dst"):
        strays = engine.fetch(
            f"select e.src, e.dst from {edges} e left join ({known}) n on e.{end} = n.id "
            "where n.id is null order by e.src, e.dst limit 1"
        ).to_pylist()
        if strays:
            edge = strays[0]
            got = f"an edge from {edge['src']!r} to {edge['dst']!r}, and no node {edge[end]!r}"
            raise InvalidGraphError("edges", got, "edges between the ids of nodes")
