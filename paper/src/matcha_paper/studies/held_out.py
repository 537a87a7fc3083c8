"""Accuracy of a base method on held-out seeds, alone and inside Matcha, beside the published.

The method has the options given, else its defaults, and Matcha its own: this shows whether a method
works, and chooses nothing. Test seeds are not touched.

Run: python -m matcha_paper.studies.held_out graphpatcher [--device cuda]
     python -m matcha_paper.studies.held_out adanpc --options '{"k": 10, "temperature": 0.001}'
Prints one line per column: the method alone and + Matcha at both seeds, then the published means.
"""

import json
from dataclasses import replace
from typing import Any

from matcha_gnn.metrics import accuracy
from matcha_paper.experiments.run import adapt_cell, build_method
from matcha_paper.experiments.source_models import make_graph
from matcha_paper.experiments.spec import Cell, RowSpec, cells, published
from matcha_paper.studies.shared import (
    HELD_OUT,
    arguments,
    held_out_table,
    run_study,
    with_models,
)


def held_out_cells(
    method: str, options: dict[str, Any], name: str = "table1", seeds: tuple[int, ...] = HELD_OUT
) -> list[Cell]:
    """One cell per column and seed, those of one source model side by side."""
    table = held_out_table(name)
    table = replace(
        table,
        train=replace(table.train, ship=(method,)),
        rows={method: RowSpec(method, options)},
    )
    return cells(table, seeds)


def main() -> None:
    """Print a line for each column."""
    parser = arguments(__doc__)
    parser.add_argument("method")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--options", type=json.loads, default={})
    args = parser.parse_args()
    found: dict[str, list[str]] = {}
    tried = held_out_cells(args.method, args.options)
    for cell, model in with_models(tried, args.device, {args.method}):
        graph, method = make_graph(cell.target).to(args.device), build_method(cell.run)
        results = [adapt_cell(cell, model, graph, method, cell.run.lr, n) for n in (0, 50)]
        scores = [f"{100 * accuracy(result.probs, graph.y):.2f}" for result in results]
        found.setdefault(cell.column, []).append(" / ".join(scores))
    names = {row.lower(): row for row in published("table1")}
    for column, by_seed in found.items():
        rows = [names.get(args.method), names.get(f"{args.method} + matcha")]
        paper = [str(published("table1")[row][column][0]) for row in rows if row]
        print(f"{column}: {', '.join(by_seed)}; published {' / '.join(paper) or 'none'}")


if __name__ == "__main__":
    run_study(main)
