"""The colours of every figure."""

BLUE, ORANGE, GREEN, PINK = "#1f83c4", "#d55e00", "#009e73", "#c0649c"
"""After Okabe and Ito, with at least 3:1 contrast to both light and dark paper."""
GREY, BLACK = "#8a8a8a", "#000000"
LINES = (BLUE, ORANGE, GREEN, PINK)
"""In the order in which they are taken."""
