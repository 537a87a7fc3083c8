"""One look for every figure: colours that the colour-blind tell apart, text for half size."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from matcha_gnn.io.files import output_folder, replacing
from matcha_gnn.report.palette import BLACK, BLUE, LINES, ORANGE

COLOURS = (*LINES, BLACK)
MARKERS = "osD^v"
CLASS_COLOURS = (BLUE, ORANGE)
STYLE: dict[Any, Any] = {
    "font.size": 12,
    "axes.titlesize": 12,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.axisbelow": True,
    "figure.dpi": 150,
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "lines.linewidth": 2.0,
    "svg.fonttype": "none",
    "svg.hashsalt": "matcha",
}
Panels = NDArray[Any]


@contextmanager
def panels(
    rows: int, columns: int, width: float = 9.0, height: float = 3.2, **shared: Any
) -> Iterator[tuple[Figure, Panels]]:
    """Give a figure of rows × columns axes in our style; save it inside the block.

    Args:
        rows: of axes.
        columns: of axes.
        width: of the whole figure, in inches.
        height: of one row.
        **shared: `sharex` and `sharey`, as in matplotlib.

    Yields:
        The figure and its axes, [rows, columns].
    """
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(STYLE)
        figure = Figure(figsize=(width, rows * height), layout="constrained")
        yield figure, figure.subplots(rows, columns, squeeze=False, **shared)


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write NAME.svg and NAME.png, each whole or not at all, the same bytes every time."""
    paths = [output_folder(folder) / f"{name}.{kind}" for kind in ("svg", "png")]
    for path in paths:
        nothing = {"Date": None} if path.suffix == ".svg" else {"Software": None}
        with replacing(path) as beside:
            figure.savefig(beside, format=path.suffix[1:], metadata=nothing)
    return paths


def label(axes: Axes, x: str, y: str, title: str = "") -> None:
    """Names of the axes, a title above, and faint lines to read values by."""
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.set_title(title, loc="left")
    axes.grid(axis="y")


def band(axes: Axes, x: Any, mean: Any, sd: Any, line: int, text: str) -> None:
    """A line with its standard deviation around it; lines differ by colour and marker."""
    mean, sd = np.asarray(mean, float), np.asarray(sd, float)
    every = max(1, len(mean) // 8)
    axes.plot(
        x,
        mean,
        color=COLOURS[line],
        marker=MARKERS[line],
        markevery=(line * every // 5, every),
        label=text,
    )
    axes.fill_between(x, mean - sd, mean + sd, color=COLOURS[line], alpha=0.15, linewidth=0)


def two_classes(axes: Axes, heights: Panels, edges: Panels, boundary: float | None = 0.0) -> None:
    """Histograms of two classes over the same bins, and the decision boundary between them.

    Args:
        axes: where to draw.
        heights: density by class and bin, [2, B].
        edges: of the bins, [B + 1].
        boundary: where the classifier changes its mind.
    """
    for which, density in enumerate(heights):
        colour, name = CLASS_COLOURS[which], f"class {which}"
        axes.stairs(density, edges, fill=True, alpha=0.3, color=colour)
        dash = "-" if which == 0 else "--"
        axes.stairs(density, edges, color=colour, label=name, linestyle=dash, linewidth=1.6)
    if boundary is not None:
        style: dict[str, Any] = {"color": BLACK, "linewidth": 1.4, "linestyle": ":"}
        axes.axvline(boundary, label="source boundary", **style)
    axes.set_yticks([])
    axes.set_xlim(edges[0], edges[-1])
    axes.set_ylim(bottom=0)
