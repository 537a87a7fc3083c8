"""The figure of the candidates: what each is expected to gain over the source model."""

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator

from matcha_gnn.candidates import UNKNOWN, Candidate
from matcha_gnn.report.figures import Picture, text
from matcha_gnn.report.svg import COLOURS, INK, inline_svg, sheet
from matcha_gnn.result import Result

LINE, MARK = 1.6, 6.0
LEAST_WIDTH = 0.01
"""Of the axis: a point, so that differences of a hundredth of a point do not look large."""


def candidate_gains(result: Result) -> Picture | None:
    """Expected gain of every candidate with its bounds; None where none could be estimated."""
    if not drawable(result):
        return None
    title = result.goal.title
    values = "; ".join(f"{one.name}: {shown(result, one)}" for one in result.candidates)
    with sheet(0.36 * len(result.candidates) + 0.9) as (figure, axes):
        draw_candidates(axes, result)
        svg = inline_svg(figure, "candidates", f"Expected {title} of candidates. {values}.")
    without = "by answers" if result.verdict else "without labels"
    caption = (
        f"What each candidate is expected to gain over the source model, {without}, with 90% "
        f"intervals; at the right its {title}. Dot: {result.chosen}, which is taken."
    )
    if not result.verdict:
        caption += " One is taken only if the lower end of its interval is above zero."
    return Picture(f"Candidates by {title}", svg, caption)


def drawable(result: Result) -> bool:
    """Whether the goal of any candidate could be estimated."""
    return any(math.isfinite(one.goal.value) for one in result.candidates)


def draw_candidates(axes: Axes, result: Result) -> None:
    """A mark with its interval for each candidate; the taken one is a dot."""
    places = np.arange(len(result.candidates))[::-1]
    for place, one in zip(places, result.candidates, strict=True):
        if math.isfinite(one.gain.value):
            mark = "o" if one.name == result.chosen else "|"
            bounds = [one.gain.low, one.gain.high]
            axes.plot(bounds, [place, place], color=COLOURS[0], linewidth=LINE)
            axes.plot(
                one.gain.value,
                place,
                mark,
                color=COLOURS[0],
                markersize=MARK,
                markeredgewidth=LINE,
            )
        # Outside of the axes, where no line can cross it.
        beside = axes.get_yaxis_transform()
        axes.text(1.03, place, shown(result, one), va="center", transform=beside)
    axes.axvline(0, color=INK, linewidth=0.8)
    axes.set_yticks(places, [one.name for one in result.candidates])
    axes.set_ylim(-0.6, len(places) - 0.4)
    left, right = axes.get_xlim()
    short = LEAST_WIDTH - (right - left)
    if short > 0:
        axes.set_xlim(left - short / 2, right + short / 2)
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: text(100 * value, ".3g")))
    axes.grid(True, axis="x")
    axes.set_axisbelow(True)
    axes.set_xlabel(f"gain in {result.goal.title}, points")


def shown(result: Result, one: Candidate) -> str:
    """The goal of a candidate, or that there is none."""
    return result.goal.text(one.goal.value) if math.isfinite(one.goal.value) else UNKNOWN
