"""What is wrong with tables is said in one line, with the first row, and nothing is written."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import matcha_gnn as mg
from table_worlds import WIDTH, edge_table, node_table, world


@pytest.fixture(scope="module")
def made():
    return world(2, 200)


def with_value(table, column, row, value):
    values = table.column(column).to_pylist()
    values[row] = value
    kind = pa.array(values).type if value is not None else table.column(column).type
    return table.set_column(table.schema.get_field_index(column), column, pa.array(values, kind))


def nan_features():
    return np.r_[np.nan, np.zeros(WIDTH - 1)].astype(np.float32).tolist()


ROWS = f"allowed: {WIDTH} finite features and 2 probabilities that sum to one in every row"
NODES = {
    "missing column": (
        lambda t: t.drop_columns(["probs"]),
        "probs: got no column 'probs'; allowed: one of id, x",
    ),
    "no id": (
        lambda t: t.rename_columns(["account", "x", "probs"]),
        "nodes: got no column 'id'; allowed: one of account, x, probs",
    ),
    "null id": (
        lambda t: with_value(t, "id", 3, None),
        "nodes: got 1 rows with id null; allowed: an id in every row",
    ),
    "id twice": (
        lambda t: with_value(t, "id", 3, 7),
        "nodes: got id 7 in 2 rows; allowed: every id once",
    ),
    "ids of another kind": (
        lambda t: t.set_column(0, "id", pa.array(np.arange(200) / 2)),
        "nodes: got id of type double; allowed: integers or strings",
    ),
    "null features": (
        lambda t: with_value(with_value(t, "x", 9, None), "x", 4, None),
        f"nodes: got x null of id 4; {ROWS}",
    ),
    "NaN": (
        lambda t: with_value(t, "x", 4, nan_features()),
        f"nodes: got null, NaN or infinity in x of id 4; {ROWS}",
    ),
    "few features": (
        lambda t: with_value(t, "x", 4, [1.0, 2.0]),
        f"nodes: got 2 numbers in x of id 4; {ROWS}",
    ),
    "a class more": (
        lambda t: with_value(t, "probs", 4, [0.2, 0.3, 0.5]),
        f"nodes: got 3 numbers in probs of id 4; {ROWS}",
    ),
    "not one": (
        lambda t: with_value(t, "probs", 4, [0.9, 0.9]),
        f"nodes: got probs that sum to 1.8 of id 4; {ROWS}",
    ),
    "below zero": (
        lambda t: with_value(t, "probs", 4, [-0.5, 1.5]),
        f"nodes: got a probability of -0.5 of id 4; {ROWS}",
    ),
    "features are a number": (
        lambda t: t.set_column(1, "x", pa.array(np.ones(200))),
        f"features: got x of type double; allowed: a column of arrays of {WIDTH} numbers, or a "
        "list of columns",
    ),
    "no rows": (
        lambda t: t.slice(0, 0),
        "nodes: got no rows; allowed: at least one node",
    ),
}
EDGES = {
    "missing column": (
        lambda t: t.rename_columns(["source", "dst"]),
        "edges: got no column 'src'; allowed: one of source, dst",
    ),
    "null": (
        lambda t: with_value(t, "src", 0, None),
        "edges: got an edge from None to {dst}; allowed: src and dst in every row",
    ),
    "no such node": (
        lambda t: with_value(t, "dst", 0, 999),
        "edges: got an edge from {src} to 999, and no node 999; allowed: edges between the ids of "
        "nodes",
    ),
    "texts": (
        lambda t: t.set_column(0, "src", pa.array(map(str, t.column("src").to_pylist()))),
        "edges: got src of type string; allowed: integers, as the id of nodes",
    ),
}


def refused(folder, made, nodes, edges, **options):
    pq.write_table(nodes, folder / "nodes.parquet")
    pq.write_table(edges, folder / "edges.parquet")
    (folder / "out.parquet").write_text("old")
    given = {"source": made.summary, "out": str(folder / "out.parquet")} | options
    with pytest.raises(mg.MatchaError) as error:
        mg.tables.adapt(str(folder / "nodes.parquet"), str(folder / "edges.parquet"), **given)
    assert (folder / "out.parquet").read_text() == "old"
    names = {path.name for path in folder.iterdir()}
    assert names == {"nodes.parquet", "edges.parquet", "out.parquet"}
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("case", NODES)
def test_nodes(case, made, tmp_path):
    change, said = NODES[case]
    assert refused(tmp_path, made, change(node_table(made)), edge_table(made)) == said


@pytest.mark.parametrize("case", EDGES)
def test_edges(case, made, tmp_path):
    change, said = EDGES[case]
    edges = edge_table(made)
    first = edges.slice(0, 1).to_pylist()[0]
    said = said.format(**first)
    assert refused(tmp_path, made, node_table(made), change(edges)) == said


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"memory": "12"}, "memory: got 12; allowed: a size of at least 1.5GB, such as 4GB"),
        ({"memory": "10MB"}, "memory: got 10MB; allowed: a size of at least 1.5GB, such as 4GB"),
        (
            {"engine": 3},
            "engine: got a int; allowed: a SparkSession, a connection of DuckDB, or None",
        ),
        (
            {"features": ["id", "id"]},
            f"features: got 2 columns; allowed: {WIDTH}, as many as the source has",
        ),
        ({"source": 3}, "source: got a int; allowed: what mg.summarise_source made, or its path"),
        ({"undirected": "yes"}, "undirected: got the str 'yes'; allowed: True or False"),
    ],
)
def test_options(options, said, made, tmp_path):
    assert refused(tmp_path, made, node_table(made), edge_table(made), **options) == said


def test_files_of_another_kind(made, tmp_path):
    (tmp_path / "nodes.parquet").write_text("no Parquet")
    path = str(tmp_path / "nodes.parquet")
    with pytest.raises(mg.InvalidFileError, match=r"nodes: got .*nodes\.parquet") as error:
        mg.tables.adapt(path, path, source=made.summary, out=str(tmp_path / "out.parquet"))
    assert "\n" not in str(error.value)
