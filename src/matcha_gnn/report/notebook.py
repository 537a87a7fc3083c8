"""A result in a notebook: an HTML fragment for a cell, and a matplotlib figure."""

from matplotlib.figure import Figure

from matcha_gnn.alarms import Severity
from matcha_gnn.report.candidates import candidate_gains, draw_candidates, drawable
from matcha_gnn.report.figures import confidence_histograms, draw_confidence
from matcha_gnn.report.template import render
from matcha_gnn.result import Result

TONES = {
    Severity.GOOD: "#00704f",
    Severity.NEUTRAL: "#6b7580",
    Severity.WARNING: "#b04a00",
    Severity.ALARM: "#c0142b",
}
"""Colours of the page, as a cell has no style sheet; visible in light and dark."""


def render_cell(result: Result) -> str:
    """A few numbers and figures as an HTML fragment."""
    drawn = [candidate_gains(result), confidence_histograms(result)]
    shown = [each for each in drawn if each]
    return render("cell.html.j2", result=result, tone=TONES[result.severity], pictures=shown)


def plot(result: Result) -> Figure:
    """Candidates and confidence on one matplotlib figure.

    The figure belongs to the caller: pyplot keeps no reference to it.
    """
    import matplotlib.pyplot as plt

    panels = {"candidates": draw_candidates} if drawable(result) else {}
    panels |= {"confidence": draw_confidence}
    # Pyplot's first figure switches on display in a notebook; left open, it would be shown twice.
    figure = plt.figure(figsize=(4.5 * len(panels), 3.4), layout="constrained")
    plt.close(figure)
    places = figure.subplots(1, len(panels), squeeze=False)[0]
    for axes, (title, draw) in zip(places, panels.items(), strict=True):
        draw(axes, result)
        axes.set_title(title)
        if axes.get_legend_handles_labels()[1]:
            axes.legend(fontsize="small")
    return figure
