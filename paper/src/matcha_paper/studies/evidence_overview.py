"""A record of the evidence study in a few lines, for readers who meet it first."""

from collections.abc import Sequence
from statistics import mean
from typing import Any

HEAD = (
    "graphs",
    "runs",
    "accuracy before",
    "mean gain",
    "lost more than a point",
    "worst",
    "error of the estimate",
)


def table(records: Sequence[dict[str, Any]]) -> str:
    """Gain, harm and error of the estimates on generated and real graphs, as Markdown.

    Accuracies are in percent, all else in points. The error of the estimate is the mean absolute
    difference between expected and true accuracy of the network, where accuracy was estimated.

    Example:
        >>> run = {"real": True, "before": 70.0, "after": 75.0, "obstacle": "", "method": "erm"}
        >>> print(table([run | {"source": [72.0, 60.0, 80.0], "cbpe": 66.0}]).splitlines()[2])
        | real | 1 | 70.0 | +5.0 | 0 of 1 | +5.0 | 2.0 (told in 1 of 1) |
    """
    lines = ["| " + " | ".join(HEAD) + " |", "|---" * len(HEAD) + "|"]
    for name, real in (("generated", False), ("real", True)):
        own = [record for record in records if record["real"] == real]
        if not own:
            continue
        lines.append(_line(name, own, _error(own)))
        if alone := [r | {"after": r["alone"]} for r in own if "alone" in r]:
            lines.append(_line(f"{name}, without a source summary", alone, "none is made"))
    return "\n".join(lines)


def _line(name: str, records: Sequence[dict[str, Any]], error: str) -> str:
    changes = [record["after"] - record["before"] for record in records]
    cells = (
        name,
        str(len(records)),
        f"{mean(record['before'] for record in records):.1f}",
        f"{mean(changes):+.1f}",
        f"{sum(change < -1 for change in changes)} of {len(changes)}",
        f"{min(changes):+.1f}",
        error,
    )
    return "| " + " | ".join(cells) + " |"


def _error(records: Sequence[dict[str, Any]]) -> str:
    """Of the plain network's runs: those that other estimators were compared on."""
    compared = [record for record in records if "cbpe" in record and "source" in record]
    told = [record for record in compared if not record["obstacle"]]
    if not told:
        return "cannot tell"
    error = mean(abs(record["source"][0] - record["before"]) for record in told)
    return f"{error:.1f} (told in {len(told)} of {len(compared)})"
