"""One function per figure: from a result to inline SVG with a title and a caption."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.patches import Rectangle
from matplotlib.ticker import PercentFormatter
from numpy.typing import NDArray
from torch import Tensor

from matcha_gnn.evidence.goals import class_title
from matcha_gnn.evidence.summary import CONFIDENCE_BINS
from matcha_gnn.metrics import confusion_matrix
from matcha_gnn.report.svg import COLOURS, HEIGHT, INK, WIDTH, inline_svg, sheet
from matcha_gnn.result import Result
from matcha_gnn.typing import FloatArray

IntArray = NDArray[np.int64]
BEFORE: dict[str, Any] = {"facecolor": "none", "edgecolor": INK, "linewidth": 0.9}
AFTER: dict[str, Any] = {"facecolor": COLOURS[0], "edgecolor": COLOURS[0], "linewidth": 0.9}
"""Outline against fill, which also differ without colour."""
MAX_CONFUSED = 20
MAX_NARROW = 6
"""Classes of a confusion that fits beside another figure."""
MAX_TICK = 8
"""Letters of a name that fit below a column."""
DARKEST = 0.6
"""Opacity of a full cell: text stays readable on it in light and dark."""


@dataclass(frozen=True)
class Picture:
    """A figure of the page.

    Attributes:
        title: its heading.
        svg: an `<svg>` element with an accessible name.
        caption: how to read it.
        wide: spans a whole row of the page.
    """

    title: str
    svg: str
    caption: str
    wide: bool = False


def confidence_histograms(result: Result) -> Picture:
    """Histograms of the largest probability before and after."""
    before, after = (finite_array(probs.amax(1)) for probs in (result.probs_before, result.probs))
    means = f"Mean {text(before.mean())} before, {text(after.mean())} after."
    with sheet() as (figure, axes):
        draw_confidence(axes, result)
        figure.legend(loc="outside upper center", ncols=2, reverse=True)
        description = f"Histograms of the largest probability of each node. {means}"
        svg = inline_svg(figure, "confidence", description)
    return Picture("Confidence before and after", svg, means)


def draw_confidence(axes: Axes, result: Result) -> None:
    """Outline before, filled after."""
    before, after = (finite_array(probs.amax(1)) for probs in (result.probs_before, result.probs))
    bins = np.linspace(0, 1, CONFIDENCE_BINS + 1)
    least = bins[bins <= 1 / result.probs.shape[1]][-1]
    for values, label, style in ((after, "after", AFTER), (before, "before", BEFORE)):
        share = np.histogram(values[~np.isnan(values)], bins)[0] / len(values)
        alpha = 0.55 if label == "after" else None
        axes.stairs(share, bins, fill=label == "after", alpha=alpha, label=label, **style)
    label_axes(axes, "confidence (largest probability)", "share of nodes")
    axes.set_xlim(least, 1)
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(PercentFormatter(1))


def label_confusion(result: Result) -> Picture:
    """Counts of old against new labels."""
    counts, names = _label_counts(result), result.class_names
    classes, ticks = _most_changed(counts), _ticks(names)
    cut = f" Only the {len(classes)} classes with the most changes, of {len(counts)}, are shown."
    cut = cut if len(counts) > len(classes) else ""
    with sheet(WIDTH if len(classes) > MAX_NARROW else HEIGHT) as (figure, axes):
        _heat_map(axes, counts, classes)
        shown = [result.classes[c] for c in classes]
        axes.set_xticks(range(len(classes)), shown, **ticks)
        axes.set_yticks(range(len(classes)), shown)
        label_axes(axes, "class after", "class before", grid=False)
        description = f"Table of old against new labels. {_biggest_move(counts, names)}{cut}"
        svg = inline_svg(figure, "confusion", description)
    reading = (
        "Blue: kept, the stronger the larger the share of the row. Orange: changed, the stronger "
        "the more nodes. Empty: none."
    )
    caption = f"{_biggest_move(counts, names)} {reading}{cut}"
    return Picture("Old against new labels", svg, caption, wide=len(classes) > MAX_NARROW)


def finite_array(tensor: Tensor) -> FloatArray:
    """On the host, with NaN, which is not drawn, for everything that is not finite."""
    values = tensor.detach().cpu().double().numpy()
    return np.where(np.isfinite(values), values, np.nan)


def label_axes(axes: Axes, x: str, y: str, grid: bool = True) -> None:
    """Name both axes, with a grid behind."""
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.grid(grid, axis="y")
    axes.set_axisbelow(True)


def text(value: float, form: str = ".4g") -> str:
    """Formatted, with a proper minus."""
    return format(value, form).replace("-", "−") if np.isfinite(value) else "not finite"


def _label_counts(result: Result) -> IntArray:
    """Nodes by old and new label, [C, C]."""
    counts = np.zeros((result.probs.shape[1],) * 2, dtype=np.int64)
    seen = confusion_matrix(result.labels_before, result.labels).cpu().numpy()
    counts[: len(seen), : len(seen)] = seen
    return counts


def _most_changed(counts: IntArray) -> IntArray:
    """The classes to show; among equals the larger ones."""
    sizes = counts.sum(0) + counts.sum(1)
    order = np.lexsort((-sizes, 2 * counts.diagonal() - sizes))
    return np.sort(order[:MAX_CONFUSED])


def _ticks(names: Sequence[str]) -> dict[str, Any]:
    """Long names are turned, so that they do not overlap."""
    turned = any(len(name) > MAX_TICK for name in names)
    return {"rotation": 30, "ha": "right", "rotation_mode": "anchor"} if turned else {}


def _biggest_move(counts: IntArray, names: Sequence[str]) -> str:
    moves = counts - np.diag(counts.diagonal())
    old, new = np.unravel_index(moves.argmax(), moves.shape)
    if not moves[old, new]:
        return "No label changed."
    pair = f"{class_title(names, int(old))} to {class_title(names, int(new))}"
    return f"Most frequent change: {pair}, {moves[old, new]:,} nodes."


def _heat_map(axes: Axes, counts: IntArray, classes: IntArray) -> None:
    """Counts on shaded cells; rectangles, as a raster would not scale."""
    size, chosen = len(classes), np.ix_(classes, classes)
    opacity, counts = _opacity(counts)[chosen], counts[chosen]
    # The cells share three quarters of the sheet's width; a digit is 0.64 of its height wide.
    points = 0.75 * 72 * WIDTH / size
    fitting = points / (0.64 * len(_short(int(counts.max()))))
    for old, new in np.argwhere(counts):
        colour = to_rgba(COLOURS[0] if old == new else COLOURS[1], float(opacity[old, new]))
        axes.add_patch(Rectangle((new - 0.5, old - 0.5), 1, 1, facecolor=colour, clip_on=False))
        count = _short(int(counts[old, new]))
        axes.text(new, old, count, ha="center", va="center", fontsize=min(9, fitting))
    axes.set(xlim=(-0.5, size - 0.5), ylim=(size - 0.5, -0.5))
    axes.tick_params(length=0, labelsize=min(9, points / 1.6))
    axes.spines[:].set_visible(False)


def _opacity(counts: IntArray) -> FloatArray:
    """Of each cell: on the diagonal by its share of the row, elsewhere by its count.

    Few labels change in most runs: as shares of a row they would be invisible.
    """
    kept = counts.diagonal() / counts.sum(1).clip(1)
    moves = counts - np.diag(counts.diagonal())
    shade: FloatArray = moves / moves.max().clip(1)
    np.fill_diagonal(shade, kept)
    return DARKEST * shade


def _short(count: int) -> str:
    """A count that fits into a cell.

    Example:
        >>> [_short(n) for n in (7, 9999, 12345, 25000000)]
        ['7', '9999', '12k', '25M']
    """
    for unit, name in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if count >= 10 * unit:
            return f"{round(count / unit)}{name}"
    return str(count)
