"""The page of a strategy's result: that of any result, with γ and the rounds."""

from pathlib import Path

from torch import Tensor

from matcha_gnn.gamma.figures import gamma_bars, loss_curve, share_curves
from matcha_gnn.gamma.result import MatchaResult
from matcha_gnn.report.figures import Picture
from matcha_gnn.report.page import Change, page_content
from matcha_gnn.report.template import render, write

MOVED = {
    "gamma": "γ (the weights of the hops)",
    "theta": "θ (the encoder)",
    "both": "γ (the weights of the hops) and θ (the encoder)",
}


def write_page(
    result: MatchaResult,
    path: str | Path,
    labels: Tensor | None = None,
    mask: Tensor | None = None,
    *,
    command: str | None = None,
    graph: str | None = None,
) -> None:
    """Write a result as one HTML file; arguments as in `Result.report`."""
    content = page_content(result, labels, mask, command, graph)
    method = "" if result.method.name == "erm" else result.method.name
    page = render(
        "strategy.html.j2",
        "matcha_gnn.gamma",
        **content,
        around=method,
        moved=MOVED[result.moves],
        workings=workings(result),
        gamma=_gamma(result),
        place="hop" if result.backbone.gamma_is_hop_weights else "number",
        settings=flat(result.configuration()),
    )
    write(page, path)


def workings(result: MatchaResult) -> list[Picture]:
    """Hop weights where they moved, and the rounds."""
    bars = [gamma_bars(result)] if result.gamma_moved else []
    rounds = (loss_curve, share_curves) if result.trace.loss else ()
    return [*bars, *(draw(result) for draw in rounds)]


def _gamma(result: MatchaResult) -> list[Change]:
    """Hop weights before and after, where they moved."""
    if not result.gamma_moved:
        return []
    before, after = result.gamma_before.flatten().tolist(), result.gamma.flatten().tolist()
    return [Change(str(k), *pair) for k, pair in enumerate(zip(before, after, strict=True))]


def flat(settings: dict[str, object]) -> list[tuple[str, str]]:
    """Rows of name and value; a dictionary inside becomes one row per entry."""
    rows: list[tuple[str, str]] = []
    for name, value in settings.items():
        if isinstance(value, dict):
            rows += [(f"{name}: {inner}", text) for inner, text in flat(value)]
        else:
            rows.append((name, str(value)))
    return [(name.replace("_", " "), text) for name, text in rows]
