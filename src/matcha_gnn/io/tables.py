"""Lines of CSV files."""

import csv
import io
from collections.abc import Sequence


def csv_line(cells: Sequence[str]) -> str:
    """Cells as one line of a CSV file, without its end.

    Example:
        >>> csv_line(["1", 'a "new", day'])
        '1,"a ""new"", day"'
    """
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(cells)
    return text.getvalue()
