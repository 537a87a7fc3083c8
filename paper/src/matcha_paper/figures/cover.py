"""Generic methods help under a shift of attributes, and hardly under a shift of structure."""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from matcha_gnn.report.palette import BLACK, BLUE, GREY, ORANGE
from matcha_paper.experiments import compare, load
from matcha_paper.experiments.spec import quick
from matcha_paper.figures.numbers import Effort, Rows, column, distinct, select
from matcha_paper.figures.settings import run_tables
from matcha_paper.figures.style import label, panels, save

LEAST = 50
"""Accuracy of a coin, where the bars begin."""
TITLES = {"attribute": "attribute shift", "homophily": "homophily shift", "degree": "degree shift"}


def measure(effort: Effort) -> Rows:
    """The records of the table `cover`, run where they are missing."""
    experiment = quick(load("cover")) if effort.quick else load("cover")
    run_tables([experiment], effort)
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
    """Bars of each method alone, diamonds of the same with Matcha, its gain shaded."""
    with panels(1, 3, width=11, height=3.8, sharey=True) as (figure, axes):
        for shift, one in zip(distinct(rows, "shift"), axes[0], strict=True):
            _panel(one, select(rows, shift=shift))
            label(one, "", "", TITLES[shift])
        axes[0, 0].set_ylabel("accuracy (%)")
        axes[0, 0].set_ylim(LEAST, 100)
        figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=2)
        return save(figure, folder, "cover")


def _panel(axes: Axes, rows: Rows) -> None:
    place = np.arange(len(rows))
    alone, matcha = (np.array(column(rows, key), float) for key in ("alone", "matcha"))
    spread, matcha_spread = (
        np.array([sd or 0.0 for sd in column(rows, key)]) for key in ("alone_sd", "matcha_sd")
    )
    axes.bar(place, alone, 0.7, color=BLUE, label="alone")
    axes.bar(place, np.maximum(matcha - alone, 0), 0.7, bottom=alone, color=GREY, alpha=0.45)
    line: dict[str, Any] = {"linestyle": "none", "capsize": 4, "color": BLACK}
    axes.errorbar(place - 0.2, alone, spread, **line)
    axes.errorbar(
        place + 0.1,
        matcha,
        matcha_spread,
        marker="D",
        markerfacecolor=ORANGE,
        markersize=8,
        label="+ Matcha",
        **line,
    )
    axes.axhline(alone[0], color=BLACK, linewidth=1.2, linestyle=":")
    axes.set_xticks(place, column(rows, "method"))
    tops = np.maximum(alone + spread, matcha + matcha_spread).tolist()
    for x, (low, high, top) in enumerate(zip(alone, matcha, tops, strict=True)):
        axes.text(x, LEAST + 1, f"{low:.1f}", ha="center", fontsize=10, color="white")
        axes.text(x, top + 1.8, f"{high:.1f}", ha="center", fontsize=10)
