"""Graphs in tables get the answers that they get in memory."""

import duckdb
import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

import matcha_gnn as mg
from matcha_gnn.tables import program
from table_worlds import WIDTH, edge_table, files, in_memory, node_table, world

KINDS = [(2, 1500, "plain"), (5, 1500, "odd"), (5, 1500, "directed"), (40, 1500, "odd")]


def compare(answer, result, out):
    """Estimates and rows of both."""
    for own, other in zip(answer.decision.candidates, result.candidates, strict=True):
        assert own.name == other.name
        for one, two in ((own.accuracy, other.accuracy), (own.gain, other.gain)):
            np.testing.assert_allclose(one, two, atol=1e-5)
        assert own.changed == pytest.approx(other.changed, abs=1e-12)
    assert answer.summary() == result.summary()
    rows = pq.read_table(out).sort_by("id")
    probs = torch.tensor(rows.column("probs").to_pylist())
    assert (probs - result.probs).abs().max() < 1e-5
    assert rows.column("label").to_pylist() == result.labels.tolist()
    changed = result.labels != result.candidates[0].probs.argmax(1)
    assert rows.column("changed").to_pylist() == changed.tolist()


@pytest.mark.parametrize(("classes", "nodes", "kind"), KINDS)
def test_tables_are_memory(classes, nodes, kind, tmp_path):
    made, out = world(classes, nodes, kind), str(tmp_path / "out.parquet")
    adapted = mg.tables.adapt(*files(made, tmp_path), source=made.summary, out=out)
    with adapted as answer:
        compare(answer, in_memory(made), out)
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "edges.parquet",
        "nodes.parquet",
        "out.parquet",
    ]


def test_a_graph_larger_than_its_samples_is_judged_by_all_its_edges(tmp_path, monkeypatch):
    monkeypatch.setattr(program, "MOST_NODES", 500)
    monkeypatch.setattr(program, "MOST_PAIRS", 100)
    made, out = world(2, 1500), str(tmp_path / "out.parquet")
    assert made.target.num_edges > 1000
    with mg.tables.adapt(*files(made, tmp_path), source=made.summary, out=out) as answer:
        assert answer.decision.obstacle == ""
        compare(answer, in_memory(made), out)


def test_texts_as_ids(tmp_path):
    made, out = world(2, 1500), str(tmp_path / "out.parquet")
    ids = [f"node {k:05d}" for k in range(1500)]
    with mg.tables.adapt(*files(made, tmp_path, ids), source=made.summary, out=out) as answer:
        compare(answer, in_memory(made), out)
    assert sorted(pq.read_table(out).column("id").to_pylist()) == ids


def test_each_edge_once(tmp_path):
    made, out = world(2, 1500), str(tmp_path / "out.parquet")
    result = in_memory(made)
    made.target.edge_index = made.target.edge_index[:, made.target.edge_index.diff(dim=0)[0] > 0]
    paths = files(made, tmp_path)
    with mg.tables.adapt(*paths, source=made.summary, out=out, undirected=True) as answer:
        compare(answer, result, out)


def test_tables_of_a_connection_with_columns_of_numbers(tmp_path):
    made, out = world(2, 1500), str(tmp_path / "out.parquet")
    numbers = {f"feature {k}": made.target.x[:, k].numpy() for k in range(WIDTH)}
    numbers |= {f"p{k}": made.probs[:, k].numpy() for k in range(2)}
    nodes = node_table(made).drop_columns(["x", "probs"]).rename_columns(["account"])
    for name, values in numbers.items():
        nodes = nodes.append_column(name, [values])
    connection = duckdb.connect()
    connection.register("arrow_edges", edge_table(made))
    connection.execute("create table links as select * from arrow_edges")
    with mg.tables.adapt(
        nodes,
        "links",
        source=made.summary,
        out=out,
        engine=connection,
        id="account",
        features=[f"feature {k}" for k in range(WIDTH)],
        probs=["p0", "p1"],
    ) as answer:
        compare(answer, in_memory(made), out)
    assert connection.execute("select table_name from duckdb_tables()").fetchall() == [("links",)]


def test_no_edges(tmp_path):
    made, out = world(2, 1500), str(tmp_path / "out.parquet")
    made.target.edge_index = made.target.edge_index[:, :0]
    edges = edge_table(made).cast(edge_table(world(2, 1500)).schema)
    nodes, path = files(made, tmp_path)
    pq.write_table(edges, path)
    made.net.forward = lambda x, edge_index: made.probs.log()
    with mg.tables.adapt(nodes, path, source=made.summary, out=out) as answer:
        compare(answer, in_memory(made), out)


def test_estimate_is_that_of_the_source(tmp_path):
    made = world(2, 1500)
    found = mg.tables.estimate(*files(made, tmp_path), source=made.summary)
    np.testing.assert_allclose(found, in_memory(made).candidates[0].accuracy, atol=1e-5)


def test_broken_features_keep_the_source(tmp_path):
    made, out = world(2, 1500), str(tmp_path / "out.parquet")
    made.target.x = made.target.x * 100
    made.net.forward = lambda x, edge_index: made.probs.log()
    with pytest.warns(mg.NotAdaptedWarning):
        result = in_memory(made)
    with mg.tables.adapt(*files(made, tmp_path), source=made.summary, out=out) as answer:
        compare(answer, result, out)
        assert "same unit" in answer.summary()
    with pytest.raises(mg.MatchaError, match="same unit"):
        mg.tables.estimate(*files(made, tmp_path), source=made.summary)
