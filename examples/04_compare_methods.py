"""Every base method on your model and graph, alone and adapted, on one screen.

Without labels you see how many labels each changes and how it ended; with labels, accuracy.

Run: python examples/04_compare_methods.py
     python examples/04_compare_methods.py --model model.safetensors --graph target.npz
"""

import argparse
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table
from torch_geometric.data import Data

import matcha_gnn as mg

METHODS = (mg.ERM(), mg.T3A(), mg.Tent(), mg.AdaNPC(), mg.SOGA(), mg.GTrans(), mg.LAME())


@dataclass(frozen=True)
class Row:
    """One method; texts for the table."""

    method: str
    changed: str
    status: str
    accuracy: str
    seconds: str


def compare(model: mg.Backbone, graph: Data) -> list[Row]:
    """Adapt with every method that the model has the parts for."""
    rows = []
    for method in METHODS:
        try:
            result = mg.adapt(model, graph, strategy=mg.Matcha(method))
        except mg.IncompatibleError as error:
            rows.append(Row(method.name, "", str(error), "", ""))
            continue
        accuracy = ""
        if graph.y is not None:
            shares = [mg.metrics.accuracy(p, graph.y) for p in (result.probs_before, result.probs)]
            accuracy = f"{shares[0]:.1%} → {shares[1]:.1%}"
        seconds = f"{sum(result.seconds.values()):.2f}"
        rows.append(Row(method.name, f"{result.changed:.1%}", result.status, accuracy, seconds))
    return rows


def demonstration(nodes: int, epochs: int) -> tuple[mg.Backbone, Data]:
    """A small model and a graph of opposite homophily, where no files are given."""
    source = mg.datasets.csbm(nodes, 100, homophily=0.8, seed=0)
    target = mg.datasets.csbm(nodes, 100, homophily=0.2, seed=1)
    model = mg.GPRGNN(100, 2)
    mg.fit(model, source, epochs=epochs, methods=[mg.AdaNPC()])
    return model, target


def main(arguments: list[str] | None = None) -> list[Row]:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, help="a file written by `matcha train`")
    parser.add_argument("--graph", type=Path, help="an .npz or .pt graph")
    parser.add_argument("--nodes", type=int, default=2000)
    parser.add_argument("--epochs", type=int, default=200)
    given = parser.parse_args(arguments)
    if given.model and given.graph:
        model, graph = mg.load_model(given.model), mg.read_graph(given.graph)
    else:
        model, graph = demonstration(given.nodes, given.epochs)
    rows = compare(model, graph)
    table = Table("method", "labels changed", "status", "accuracy: alone → adapted", "seconds")
    for row in rows:
        table.add_row(row.method, row.changed, row.status, row.accuracy, row.seconds)
    Console().print(table)
    return rows


if __name__ == "__main__":
    main()
