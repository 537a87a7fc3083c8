"""What only a cluster can show: `mg.tables` on Spark with two executors, beside memory and DuckDB.

Run: python tests/spark_checks.py results/spark.json (`make spark`); it needs Java 17.

Each executor is a process of its own with a core, on the loopback address: rows are serialised and
shuffled between them.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path
from time import perf_counter

import numpy as np
import pyarrow.dataset as ds
import torch

import matcha_gnn as mg
from table_worlds import files, in_memory, node_table, world

ROOT = Path(__file__).parents[1]
CLUSTER = "local-cluster[2,1,1024]"
WORLDS = [(2, "plain"), (5, "odd"), (5, "directed"), (40, "odd"), (2, "texts")]
ALLOWED = 1e-5


def session():
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.executorEnv.PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        "spark.executorEnv.OMP_NUM_THREADS": "1",
        "spark.sql.shuffle.partitions": "8",
        "spark.log.level": "ERROR",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master(CLUSTER)
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def rows_of(folder):
    """Labels and probabilities of the rows in a file or folder, in the order of the ids."""
    table = ds.dataset(folder, format="parquet").to_table().sort_by("id")
    flat = table.column("probs").combine_chunks().flatten().to_numpy()
    return table.column("label").to_numpy(), flat.reshape(len(table), -1)


def estimates(candidates):
    return np.array([[*one.accuracy, *one.gain, one.changed] for one in candidates])


def beside_memory(spark, classes, kind, folder):
    """The largest difference of estimates and probabilities on a small graph."""
    made = world(classes, 1500, "plain" if kind == "texts" else kind)
    ids = [f"node {k:05d}" for k in range(1500)] if kind == "texts" else None
    out, result = str(folder / "out"), in_memory(made)
    given = files(made, folder, ids)
    with mg.tables.adapt(*given, source=made.summary, out=out, engine=spark) as answer:
        own, other = (estimates(each.candidates) for each in (answer.decision, result))
        assert answer.decision.chosen == result.chosen
    labels, probs = rows_of(out)
    assert (labels == result.labels.numpy()).all()
    differences = abs(own - other).max(), abs(probs - result.probs.numpy()).max()
    return float(max(differences))


def refused(spark, folder):
    """What is said of a row that is wrong."""
    made = world(2, 200)
    nodes, edges = files(made, folder)
    table = node_table(made).to_pylist()
    table[4]["probs"] = [0.9, 0.9]
    frame = spark.createDataFrame(table)
    try:
        mg.tables.adapt(frame, edges, source=made.summary, out=str(folder / "o"), engine=spark)
    except mg.InvalidGraphError as error:
        return str(error)
    raise AssertionError("probabilities that sum to 1.8 were taken")


def executors(spark):
    """Tasks and shuffled bytes of each executor so far."""
    context = spark.sparkContext
    address = f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}/executors"
    with urllib.request.urlopen(address) as answer:
        rows = json.load(answer)
    return {
        row["id"]: {
            "tasks": row["completedTasks"],
            "shuffle_read_bytes": row["totalShuffleRead"],
            "shuffle_write_bytes": row["totalShuffleWrite"],
        }
        for row in rows
        if row["id"] != "driver"
    }


def large(spark, nodes, folder):
    """DuckDB and Spark on the same files."""
    command = [sys.executable, ROOT / "benchmarks" / "tables.py", "--make", str(nodes)]
    subprocess.run([*command, "--folder", folder], check=True)
    given = [str(folder / name) for name in ("nodes.parquet", "edges.parquet")]
    source, seconds, found = str(folder / "source.safetensors"), {}, {}
    before = executors(spark)
    for name, engine in (("duckdb", None), ("spark", spark)):
        start, out = perf_counter(), str(folder / name)
        with mg.tables.adapt(*given, source=source, out=out, engine=engine) as answer:
            seconds[name] = perf_counter() - start
            found[name] = estimates(answer.decision.candidates), *rows_of(out)
    work = {
        name: {key: row[key] - before.get(name, dict.fromkeys(row, 0))[key] for key in row}
        for name, row in executors(spark).items()
    }
    differences = [float(abs(a - b).max()) for a, b in zip(*found.values(), strict=True)]
    largest = dict(zip(("estimates", "labels", "probabilities"), differences, strict=True))
    return {"nodes": nodes, "seconds": seconds, "differences": largest, "executors": work}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("record", type=Path)
    parser.add_argument("--nodes", type=int, default=1_000_000)
    args = parser.parse_args()
    torch.set_num_threads(1)
    spark, small = session(), {}
    for classes, kind in WORLDS:
        with tempfile.TemporaryDirectory() as folder:
            small[f"{classes} classes, {kind}"] = beside_memory(spark, classes, kind, Path(folder))
        print(classes, kind, small[f"{classes} classes, {kind}"], flush=True)
    with tempfile.TemporaryDirectory() as folder:
        said = refused(spark, Path(folder))
    with tempfile.TemporaryDirectory() as folder:
        many = large(spark, args.nodes, Path(folder))
    version = spark.version
    spark.stop()
    record = {
        "command": "make spark",
        "master": CLUSTER,
        "spark": version,
        "beside_memory": small,
        "refused": said,
        "large": many,
    }
    print(json.dumps(record, indent=1))
    assert max(small.values()) < ALLOWED, small
    assert max(many["differences"].values()) < ALLOWED, many
    assert len(many["executors"]) == 2, many
    assert all(min(row.values()) > 0 for row in many["executors"].values()), many
    assert said.startswith("nodes: got probs that sum to 1.8 of id 4"), said
    args.record.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
