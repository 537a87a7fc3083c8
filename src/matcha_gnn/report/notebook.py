"""A result in a notebook: what a cell shows of it, and figures to work on."""

from matplotlib.figure import Figure

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

PANELS = {
    "hop weights": draw_gamma,
    "loss": draw_loss,
    "class shares": draw_shares,
    "confidence": draw_confidence,
}


def render_cell(result: Adaptation) -> str:
    """A few numbers and figures as an HTML fragment."""
    drawn = [gamma_bars(result), loss_curve(result), confidence_histograms(result)]
    return render("cell.html.j2", result=result, pictures=drawn)


def plot(result: Adaptation) -> Figure:
    """Hop weights, loss, class shares and confidence on one matplotlib figure.

    The figure belongs to the caller: pyplot does not hold it.
    """
    import matplotlib.pyplot as plt

    # Pyplot's first figure teaches a notebook to show figures; held by it, this one would be
    # shown twice.
    figure = plt.figure(figsize=(9, 6), layout="constrained")
    plt.close(figure)
    for axes, (title, draw) in zip(figure.subplots(2, 2).flat, PANELS.items(), strict=True):
        draw(axes, result)
        axes.set_title(title)
        if axes.get_legend_handles_labels()[1]:
            axes.legend(fontsize="small")
    return figure
