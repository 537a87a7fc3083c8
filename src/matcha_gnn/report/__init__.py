"""Pages about results. Imported on demand, as it imports matplotlib and jinja2."""

from matcha_gnn.report.figures import Picture, confidence_histograms, label_confusion
from matcha_gnn.report.page import render_page, write_page

__all__ = [
    "Picture",
    "confidence_histograms",
    "label_confusion",
    "render_page",
    "write_page",
]
