"""Last night's predictions in a Parquet column: there is no classifier to call any more.

Run: python examples/classifiers/parquet_column.py FOLDER
"""

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from sklearn.linear_model import LogisticRegression

import matcha_gnn as mg


def column(path):
    return np.stack(pq.read_table(path)["probs"].to_numpy())


def main(folder: Path) -> tuple[float, float]:
    source = mg.datasets.csbm(1500, 32, homophily=0.85, signal=1.5, seed=0)
    target = mg.datasets.csbm(1500, 32, homophily=0.2, signal=1.5, seed=1)
    model = LogisticRegression().fit(source.x[:750], source.y[:750])  # somebody else's job
    for name, graph in (("source", source), ("target", target)):
        rows = pa.table({"probs": model.predict_proba(graph.x).tolist()})
        pq.write_table(rows, folder / f"{name}.parquet")

    probs = column(folder / "source.parquet")
    summary = mg.summarise_source(probs, source, trained=list(range(750)))
    result = mg.adapt(column(folder / "target.parquet"), target, source=summary)
    result.report(folder / "report.html")
    decided = result.answer({each.node: int(target.y[each.node]) for each in result.ask(20)})
    decided.save(folder / "answer.safetensors")
    again = mg.load(folder / "answer.safetensors", network=column(folder / "target.parquet"))
    assert (again(target).argmax(1) == decided.labels).all()
    return tuple(mg.metrics.accuracy(p, target.y) for p in (result.probs_before, decided.probs))


if __name__ == "__main__":
    print("accuracy {:.1%} → {:.1%}".format(*main(Path(sys.argv[1]))))
