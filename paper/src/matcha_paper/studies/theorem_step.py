"""The step size of Theorem 4.1 on the published CSBM graphs, beside what the tables use.

Smoothness at the source model's γ, seed 0 of Table 1, structure shifts.

Run: python -m matcha_paper.studies.theorem_step [--results results]
"""

from pathlib import Path

import torch

from matcha_gnn import unlabelled
from matcha_paper.convergence import lipschitz, smoothness, squared_norm, theorem_step
from matcha_paper.experiments import load
from matcha_paper.experiments.source_models import cached_source, make_graph
from matcha_paper.experiments.spec import Cell, cells
from matcha_paper.experiments.store import default_folder
from matcha_paper.studies.shared import arguments, run_study

ROW = "ERM + Matcha"
COLUMNS = ("homo-hetero", "hetero-homo", "high-low", "low-high")


def line(cell: Cell, results: Path) -> str:
    """What the theorem says of a cell, and the step size that the table takes."""
    model = cached_source(cell, results).model
    hops = model.hops(unlabelled(make_graph(cell.target))).stack.double()
    z = torch.einsum("nkd,k->nd", hops, model.gamma.detach().double())
    weight = model.head.weight.detach().double()
    beta = smoothness(z, weight)
    error = lipschitz(weight) ** 2 * squared_norm(hops)
    return (
        f"{cell.column}: β {beta:.1e}, |M|² {squared_norm(hops):.3g}, step "
        f"{theorem_step(hops, beta):.2g} (table: {cell.run.lr:g}), (L_1 L_2)² |M|² {error:.1e}"
    )


def main() -> None:
    """Print a line for each column."""
    parser = arguments(__doc__)
    parser.add_argument("--results", type=Path, default=None)
    args = parser.parse_args()
    wanted = (c for c in cells(load("table1"), (0,)) if c.row == ROW and c.column in COLUMNS)
    for cell in wanted:
        print(line(cell, args.results or default_folder()), flush=True)


if __name__ == "__main__":
    run_study(main)
