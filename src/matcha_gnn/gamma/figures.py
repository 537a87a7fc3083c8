"""Figures of γ and of the rounds that moved it."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from matplotlib.ticker import MaxNLocator, PercentFormatter
from numpy.typing import NDArray

from matcha_gnn.evidence.goals import class_title
from matcha_gnn.gamma.result import MatchaResult
from matcha_gnn.report.figures import AFTER, BEFORE, Picture, finite_array, label_axes, text
from matcha_gnn.report.svg import COLOURS, HEIGHT, INK, inline_svg, sheet
from matcha_gnn.typing import FloatArray

IntArray = NDArray[np.int64]
MARKERS = "osD^vPX*<>"
MAX_LINES = 10
MAX_ROUNDS = 1000
"""Rounds drawn at most, to limit the size of the page."""


def gamma_bars(result: MatchaResult) -> Picture:
    """γ of each hop before and after, as paired bars."""
    before, after = finite_array(result.gamma_before).ravel(), finite_array(result.gamma).ravel()
    moved = _largest_change(before, after, "hop" if _counts_hops(result) else "γ number")
    with sheet() as (figure, axes):
        hops = np.arange(len(before))
        axes.bar(hops - 0.2, before, 0.36, label="before", **BEFORE)
        axes.bar(hops + 0.2, after, 0.36, label="after", **AFTER)
        axes.axhline(0, color=INK, linewidth=0.8)
        label_axes(axes, "hop" if _counts_hops(result) else "number", "γ")
        axes.set_xlim(-0.6, len(hops) - 0.4)
        axes.xaxis.set_major_locator(MaxNLocator(11, integer=True, min_n_ticks=1))
        figure.legend(loc="outside upper center", ncols=2)
        description = f"Bars of the {len(before)} numbers of γ, before and after. {moved}"
        svg = inline_svg(figure, "gamma", description)
    title = "Weight of each hop" if _counts_hops(result) else "Parameters γ"
    return Picture(title, svg, moved)


def loss_curve(result: MatchaResult) -> Picture:
    """The loss over the rounds."""
    loss = finite_array(torch.tensor(result.trace.loss, dtype=torch.float64))
    ends = f"From {text(loss[0])} before the first round to {text(loss[-1])} after the last."
    gaps = int(np.isnan(loss).sum())
    ends += f" Not finite, and left out, in {gaps} of {len(loss)} rounds." if gaps else ""
    with sheet() as (figure, axes):
        drawn = drawn_rounds(len(loss))
        axes.plot(drawn, loss[drawn], color=COLOURS[0], linewidth=1.8)
        axes.plot(drawn[[0, -1]], loss[drawn[[0, -1]]], "o", color=COLOURS[0], markersize=4)
        name = f"loss ({result.loss_name})" if result.loss_name else "loss"
        label_axes(axes, "rounds done", name)
        axes.xaxis.set_major_locator(MaxNLocator(8, integer=True, min_n_ticks=1))
        svg = inline_svg(figure, "loss", f"Line of the loss over the rounds. {ends}")
    return Picture("Loss over the rounds", svg, ends + thinned(len(loss)))


def share_curves(result: MatchaResult) -> Picture:
    """The mean prediction of each class over the rounds."""
    shares = np.stack(result.trace.class_shares)
    classes, total = _largest_at_the_end(shares), shares.shape[1]
    cut = f" Only the {len(classes)} largest of {total} classes at the end are drawn."
    cut = cut if total > len(classes) else ""
    with sheet(HEIGHT + 0.4) as (figure, axes):
        drawn = drawn_rounds(len(shares))
        for line, one in enumerate(classes):
            style = _line_style(line, len(drawn))
            axes.plot(drawn, shares[drawn, one], label=result.classes[one], **style)
        label_axes(axes, "rounds done", "share of all predicted mass")
        axes.xaxis.set_major_locator(MaxNLocator(8, integer=True, min_n_ticks=1))
        axes.yaxis.set_major_formatter(PercentFormatter(1))
        axes.set_ylim(0, 1.08 * np.nan_to_num(shares[:, classes]).max() or 1)
        columns = math.ceil(len(classes) / 2) if len(classes) > 5 else len(classes)
        figure.legend(loc="outside upper center", ncols=columns, title="class", handlelength=2.4)
        ends = _share_ends(shares, classes, result.class_names)
        description = f"Lines of the mean prediction per class. {ends}"
        svg = inline_svg(figure, "shares", description + cut)
    caption = f"Mean predicted probability of each class.{cut}{thinned(len(shares))}"
    return Picture("Class shares over the rounds", svg, caption)


def _counts_hops(result: MatchaResult) -> bool:
    """Whether γ has one number for each hop, unlike α of APPNP."""
    return bool(result.backbone.gamma_is_hop_weights)


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
