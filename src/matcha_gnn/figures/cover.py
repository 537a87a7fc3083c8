"""Generic methods help under a shift of attributes, and hardly under a shift of structure."""

from pathlib import Path

import numpy as np

from matcha_gnn.experiments import compare, load, run
from matcha_gnn.experiments.spec import quick
from matcha_gnn.figures.numbers import Effort, Rows, column, distinct, select
from matcha_gnn.figures.style import BLUE, GREY, label, panels, save

TITLES = {"attribute": "attribute shift", "homophily": "homophily shift", "degree": "degree shift"}


def measure(effort: Effort) -> Rows:
    """The records of the table `cover`, run where they are missing."""
    experiment = quick(load("cover")) if effort.quick else load("cover")
    run(
        experiment,
        effort.results,
        seeds=effort.seeds,
        jobs=effort.jobs,
        device=effort.device,
        progress=effort.progress,
    )
    by_place = {(c.row, c.column): c for c in compare(experiment, effort.results)}
    return [
        {
            "shift": shift,
            "method": method,
            "alone": by_place[method, shift].ours_mean,
            "alone_sd": by_place[method, shift].ours_sd,
            "matcha": by_place[f"{method} + Matcha", shift].ours_mean,
            "matcha_sd": by_place[f"{method} + Matcha", shift].ours_sd,
        }
        for shift in experiment.columns
        for method in experiment.rows
        if f"{method} + Matcha" in experiment.rows
    ]


def draw(rows: Rows, folder: Path) -> list[Path]:
    """Bars of each method alone; what Matcha adds is shaded above."""
    with panels(1, 3, width=11, height=3.6, sharey=True) as (figure, axes):
        for shift, one in zip(distinct(rows, "shift"), axes[0], strict=True):
            part = select(rows, shift=shift)
            place = np.arange(len(part))
            alone, matcha = (np.array(column(part, key), float) for key in ("alone", "matcha"))
            spread = np.array([sd or 0.0 for sd in column(part, "alone_sd")])
            one.bar(place, alone, 0.7, color=BLUE, label="alone")
            gain = np.maximum(matcha - alone, 0)
            style = {"color": GREY, "alpha": 0.45, "hatch": "//", "edgecolor": "#555555"}
            one.bar(place, gain, 0.7, bottom=alone, label="+ Matcha", linewidth=0, **style)
            one.errorbar(place, alone, spread, linestyle="none", color="#000000", capsize=4)
            one.axhline(alone[0], color="#000000", linewidth=1.2, linestyle=":")
            one.set_xticks(place, column(part, "method"))
            for x, low, high in zip(place, alone, matcha, strict=True):
                one.text(x, max(low, high) + 0.8, f"{max(low, high):.1f}", ha="center", fontsize=10)
            label(one, "", "", TITLES[shift])
        axes[0, 0].set_ylabel("accuracy (%)")
        axes[0, 0].set_ylim(50, 100)
        figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=2)
        return save(figure, folder, "cover")
