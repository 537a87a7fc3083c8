"""Pages about results. Imported on demand, as it imports matplotlib and jinja2."""

from matcha_gnn.report.figures import (
    Picture,
    confidence_histograms,
    gamma_bars,
    label_confusion,
    loss_curve,
    share_curves,
)
from matcha_gnn.report.page import pictures, render_page, write_page
from matcha_gnn.report.shift import shift_card

__all__ = [
    "Picture",
    "confidence_histograms",
    "gamma_bars",
    "label_confusion",
    "loss_curve",
    "pictures",
    "render_page",
    "share_curves",
    "shift_card",
    "write_page",
]
