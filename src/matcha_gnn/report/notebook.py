"""A result in a notebook: an HTML fragment for a cell, and a matplotlib figure."""

from matplotlib.figure import Figure

from matcha_gnn.report.candidates import candidate_gains, draw_candidates, drawable
from matcha_gnn.report.figures import (
    confidence_histograms,
    draw_confidence,
    draw_gamma,
    draw_loss,
    draw_shares,
    gamma_bars,
    loss_curve,
)
from matcha_gnn.report.template import render
from matcha_gnn.result import Adaptation
from matcha_gnn.result.alarms import Severity

TONES = {
    Severity.GOOD: "#00704f",
    Severity.NEUTRAL: "#6b7580",
    Severity.WARNING: "#b04a00",
    Severity.ALARM: "#c0142b",
}
"""Colours of the page, as a cell has no style sheet; visible in light and dark."""
ROUNDS = {"loss": draw_loss, "class shares": draw_shares}


def render_cell(result: Adaptation) -> str:
    """A few numbers and figures as an HTML fragment."""
    rounds = loss_curve(result) if result.trace.loss else None
    tried = candidate_gains(result) if result.decision else rounds
    drawn = [tried, confidence_histograms(result), gamma_bars(result)]
    shown = [each for each in drawn if each]
    return render("cell.html.j2", result=result, tone=TONES[result.severity], pictures=shown)


def plot(result: Adaptation) -> Figure:
    """Hop weights, candidates or rounds, and confidence on one matplotlib figure.

    The figure belongs to the caller: pyplot keeps no reference to it.
    """
    import matplotlib.pyplot as plt

    middle = ROUNDS if result.trace.loss else {}
    if result.decision:
        middle = {"candidates": draw_candidates} if drawable(result) else {}
    panels = {**middle, "confidence": draw_confidence, "hop weights": draw_gamma}
    # Pyplot's first figure switches on display in a notebook; left open, it would be shown twice.
    figure = plt.figure(figsize=(4.5 * len(panels), 3.4), layout="constrained")
    plt.close(figure)
    for axes, (title, draw) in zip(figure.subplots(1, len(panels)), panels.items(), strict=True):
        draw(axes, result)
        axes.set_title(title)
        if axes.get_legend_handles_labels()[1]:
            axes.legend(fontsize="small")
    return figure
