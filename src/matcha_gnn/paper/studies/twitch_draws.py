"""How much Twitch-E's accuracy depends on which edges are dropped: the published draw and others.

Held-out training seeds, ERM and ERM + Matcha as in table2, one line per training seed and draw.

Run: python -m matcha_gnn.paper.studies.twitch_draws
"""

from matcha_gnn.metrics import accuracy
from matcha_gnn.paper.experiments import load
from matcha_gnn.paper.experiments.run import adapt_cell, build_method
from matcha_gnn.paper.experiments.source_models import make_graph
from matcha_gnn.paper.experiments.spec import cells
from matcha_gnn.paper.studies.shared import HELD_OUT, arguments, run_study, with_models

COLUMN, ROW = "twitch-e", "ERM + Matcha"
DRAWS = ("released", 42, 43, 44, 45)


def main() -> None:
    """Print ERM / ERM + Matcha for each training seed and draw."""
    arguments(__doc__).parse_args()
    wanted = (c for c in cells(load("table2"), HELD_OUT) if (c.column, c.row) == (COLUMN, ROW))
    for cell, model in with_models(wanted):
        for draw in DRAWS:
            graph = make_graph(dict(cell.target) | {"seed": draw})
            method, lr = build_method(cell.run), cell.run.lr
            runs = [adapt_cell(cell, model, graph, method, lr, n) for n in (0, cell.run.epochs)]
            scores = " / ".join(f"{100 * accuracy(run.probs, graph.y):.2f}" for run in runs)
            print(f"training seed {cell.seed}, draw {draw}: {scores}", flush=True)


if __name__ == "__main__":
    run_study(main)
