"""One function per figure: from a result to inline SVG with a title and a caption."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator, PercentFormatter
from numpy.typing import NDArray
from torch import Tensor

from matcha_gnn.class_names import class_title
from matcha_gnn.evidence.summary import CONFIDENCE_BINS
from matcha_gnn.metrics import confusion_matrix
from matcha_gnn.report.svg import COLOURS, HEIGHT, INK, WIDTH, inline_svg, sheet
from matcha_gnn.result import Adaptation
from matcha_gnn.typing import FloatArray

IntArray = NDArray[np.int64]
BEFORE: dict[str, Any] = {"facecolor": "none", "edgecolor": INK, "linewidth": 0.9}
AFTER: dict[str, Any] = {"facecolor": COLOURS[0], "edgecolor": COLOURS[0], "linewidth": 0.9}
"""Outline against fill, which also differ without colour."""
MARKERS = "osD^vPX*<>"
MAX_LINES = 10
MAX_ROUNDS = 1000
"""Rounds drawn at most, to limit the size of the page."""
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


def gamma_bars(result: Adaptation) -> Picture:
    """γ of each hop before and after, as paired bars."""
    before, after = _array(result.gamma_before).ravel(), _array(result.gamma).ravel()
    moved = _largest_change(before, after, "hop" if _counts_hops(result) else "γ number")
    with sheet() as (figure, axes):
        draw_gamma(axes, result)
        figure.legend(loc="outside upper center", ncols=2)
        description = f"Bars of the {len(before)} numbers of γ, before and after. {moved}"
        svg = inline_svg(figure, "gamma", description)
    title = "Weight of each hop" if _counts_hops(result) else "Parameters γ"
    return Picture(title, svg, moved)


def draw_gamma(axes: Axes, result: Adaptation) -> None:
    """Paired bars of γ."""
    before, after = _array(result.gamma_before).ravel(), _array(result.gamma).ravel()
    hops = np.arange(len(before))
    axes.bar(hops - 0.2, before, 0.36, label="before", **BEFORE)
    axes.bar(hops + 0.2, after, 0.36, label="after", **AFTER)
    axes.axhline(0, color=INK, linewidth=0.8)
    _label(axes, "hop" if _counts_hops(result) else "number", "γ")
    axes.set_xlim(-0.6, len(hops) - 0.4)
    axes.xaxis.set_major_locator(MaxNLocator(11, integer=True, min_n_ticks=1))


def loss_curve(result: Adaptation) -> Picture:
    """The loss over the rounds."""
    loss = _losses(result)
    ends = f"From {text(loss[0])} before the first round to {text(loss[-1])} after the last."
    gaps = int(np.isnan(loss).sum())
    ends += f" Not finite, and left out, in {gaps} of {len(loss)} rounds." if gaps else ""
    with sheet() as (figure, axes):
        draw_loss(axes, result)
        svg = inline_svg(figure, "loss", f"Line of the loss over the rounds. {ends}")
    return Picture("Loss over the rounds", svg, ends + thinned(len(loss)))


def draw_loss(axes: Axes, result: Adaptation) -> None:
    """The loss as a line, both ends marked."""
    loss = _losses(result)
    drawn = drawn_rounds(len(loss))
    axes.plot(drawn, loss[drawn], color=COLOURS[0], linewidth=1.8)
    axes.plot(drawn[[0, -1]], loss[drawn[[0, -1]]], "o", color=COLOURS[0], markersize=4)
    _label(axes, "rounds done", f"loss ({result.loss_name})" if result.loss_name else "loss")
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True, min_n_ticks=1))


def share_curves(result: Adaptation) -> Picture:
    """The mean prediction of each class over the rounds."""
    shares = np.stack(result.trace.class_shares)
    classes, total = _largest_at_the_end(shares), shares.shape[1]
    cut = f" Only the {len(classes)} largest of {total} classes at the end are drawn."
    cut = cut if total > len(classes) else ""
    with sheet(HEIGHT + 0.4) as (figure, axes):
        draw_shares(axes, result)
        columns = math.ceil(len(classes) / 2) if len(classes) > 5 else len(classes)
        figure.legend(loc="outside upper center", ncols=columns, title="class", handlelength=2.4)
        ends = _share_ends(shares, classes, result.class_names)
        description = f"Lines of the mean prediction per class. {ends}"
        svg = inline_svg(figure, "shares", description + cut)
    caption = f"Mean predicted probability of each class.{cut}{thinned(len(shares))}"
    return Picture("Class shares over the rounds", svg, caption)


def draw_shares(axes: Axes, result: Adaptation) -> None:
    """A line for each of the largest classes."""
    shares = np.stack(result.trace.class_shares)
    classes, drawn = _largest_at_the_end(shares), drawn_rounds(len(shares))
    for line, one in enumerate(classes):
        style = _line_style(line, len(drawn))
        axes.plot(drawn, shares[drawn, one], label=result.classes[one], **style)
    _label(axes, "rounds done", "share of all predicted mass")
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True, min_n_ticks=1))
    axes.yaxis.set_major_formatter(PercentFormatter(1))
    axes.set_ylim(0, 1.08 * np.nan_to_num(shares[:, classes]).max() or 1)


def confidence_histograms(result: Adaptation) -> Picture:
    """Histograms of the largest probability before and after."""
    before, after = (_array(probs.amax(1)) for probs in (result.probs_before, result.probs))
    means = f"Mean {text(before.mean())} before, {text(after.mean())} after."
    with sheet() as (figure, axes):
        draw_confidence(axes, result)
        figure.legend(loc="outside upper center", ncols=2, reverse=True)
        description = f"Histograms of the largest probability of each node. {means}"
        svg = inline_svg(figure, "confidence", description)
    return Picture("Confidence before and after", svg, means)


def draw_confidence(axes: Axes, result: Adaptation) -> None:
    """Outline before, filled after."""
    before, after = (_array(probs.amax(1)) for probs in (result.probs_before, result.probs))
    bins = np.linspace(0, 1, CONFIDENCE_BINS + 1)
    least = bins[bins <= 1 / result.probs.shape[1]][-1]
    for values, label, style in ((after, "after", AFTER), (before, "before", BEFORE)):
        share = np.histogram(values[~np.isnan(values)], bins)[0] / len(values)
        alpha = 0.55 if label == "after" else None
        axes.stairs(share, bins, fill=label == "after", alpha=alpha, label=label, **style)
    _label(axes, "confidence (largest probability)", "share of nodes")
    axes.set_xlim(least, 1)
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(PercentFormatter(1))


def label_confusion(result: Adaptation) -> Picture:
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
        _label(axes, "class after", "class before", grid=False)
        description = f"Table of old against new labels. {_biggest_move(counts, names)}{cut}"
        svg = inline_svg(figure, "confusion", description)
    reading = (
        "Blue: kept, the stronger the larger the share of the row. Orange: changed, the stronger "
        "the more nodes. Empty: none."
    )
    caption = f"{_biggest_move(counts, names)} {reading}{cut}"
    return Picture("Old against new labels", svg, caption, wide=len(classes) > MAX_NARROW)


def _array(tensor: Tensor) -> FloatArray:
    """On the host, with NaN, which is not drawn, for everything that is not finite."""
    values = tensor.detach().cpu().double().numpy()
    return np.where(np.isfinite(values), values, np.nan)


def _label(axes: Axes, x: str, y: str, grid: bool = True) -> None:
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.grid(grid, axis="y")
    axes.set_axisbelow(True)


def text(value: float, form: str = ".4g") -> str:
    """Formatted, with a proper minus."""
    return format(value, form).replace("-", "−") if np.isfinite(value) else "not finite"


def _counts_hops(result: Adaptation) -> bool:
    """Whether γ has one number for each hop, unlike α of APPNP."""
    return result.model.gamma_is_hop_weights


def _largest_change(before: FloatArray, after: FloatArray, place: str) -> str:
    change = np.nan_to_num(abs(after - before))
    most = int(change.argmax())
    if not change[most]:
        return "γ did not change."
    return f"Largest change at {place} {most}: {text(before[most])} to {text(after[most])}."


def drawn_rounds(total: int) -> IntArray:
    """At most `MAX_ROUNDS` of the rounds, evenly spread, both ends among them."""
    return np.unique(np.linspace(0, total - 1, min(total, MAX_ROUNDS)).round().astype(np.int64))


def thinned(total: int) -> str:
    """A remark where not all rounds are drawn."""
    return f" {MAX_ROUNDS:,} of {total:,} rounds are drawn." if total > MAX_ROUNDS else ""


def _losses(result: Adaptation) -> FloatArray:
    return _array(torch.tensor(result.trace.loss, dtype=torch.float64))


def _largest_at_the_end(shares: FloatArray) -> IntArray:
    """At most `MAX_LINES` classes, in their own order."""
    return np.sort(np.argsort(-np.nan_to_num(shares[-1]), kind="stable")[:MAX_LINES])


def _line_style(line: int, points: int) -> dict[str, Any]:
    """Five colours solid, then dashed, and ten markers, a few on each line."""
    every = max(1, points // 6)
    return {
        "color": COLOURS[line % len(COLOURS)],
        "linestyle": "-" if line < len(COLOURS) else (0, (4, 1.5)),
        "linewidth": 1.5,
        "marker": MARKERS[line],
        "markersize": 4,
        # Shifted from line to line, so that markers do not overlap.
        "markevery": (line * every // MAX_LINES, every),
    }


def _share_ends(shares: FloatArray, classes: IntArray, names: Sequence[str]) -> str:
    first, last = ([text(share, ".1%") for share in shares[end]] for end in (0, -1))
    return "; ".join(f"{class_title(names, c)}: {first[c]} to {last[c]}" for c in classes) + "."


def _label_counts(result: Adaptation) -> IntArray:
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
