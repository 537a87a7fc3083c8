"""The page that shows one adaptation."""

import math
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from torch import Tensor

from matcha_gnn.files import replacing
from matcha_gnn.metrics import evaluate
from matcha_gnn.provenance import versions
from matcha_gnn.report.figures import pictures
from matcha_gnn.result import Adaptation, Status

ONCE = ("inference", "setup")
"""Stages that do not belong to a round."""
MOVED = {
    "gamma": "γ (the weights of the hops)",
    "theta": "θ (the encoder)",
    "both": "γ (the weights of the hops) and θ (the encoder)",
}
WELL = (Status.CONVERGED, Status.STOPPED, Status.UNADAPTED)
SCORES = {"balanced_accuracy": "balanced accuracy", "macro_f1": "macro F1"}


class Change(NamedTuple):
    """A number before and after adaptation."""

    name: str
    before: float
    after: float


class Stage(NamedTuple):
    """Time spent in a stage; `per_round` is None for those that run once."""

    name: str
    seconds: float
    per_round: float | None


def write_page(
    result: Adaptation,
    path: str | Path,
    labels: Tensor | None = None,
    mask: Tensor | None = None,
) -> None:
    """Write a result as one HTML file that needs nothing else: no network, no scripts.

    Args:
        result: what `adapt` returned.
        path: the file to write; it appears whole or not at all.
        labels: true classes [N], to show accuracy.
        mask: the nodes that accuracy counts, bool [N]; all by default.

    Raises:
        InvalidArgumentError: labels or mask do not fit the result.
        InvalidFileError: the folder is missing or cannot be written.
    """
    html = render_page(result, labels, mask)
    with replacing(path) as beside:
        beside.write_text(html, encoding="utf-8", newline="\n")


def render_page(
    result: Adaptation, labels: Tensor | None = None, mask: Tensor | None = None
) -> str:
    """The page as text, the same for the same result; arguments as in `write_page`."""
    environment = Environment(
        loader=PackageLoader("matcha_gnn.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"number": _number, "percent": _percent}
    return environment.get_template("result.html.j2").render(
        result=result,
        rounds=len(result.history.loss) - 1,
        moved=MOVED[result.settings["moves"]],
        num_changed=int((result.labels != result.labels_before).sum()),
        went_well=result.status in WELL,
        scores=_scores(result, labels, mask),
        num_scored=len(result.labels) if mask is None else int(mask.sum()),
        pictures=pictures(result),
        gamma=_gamma(result),
        stages=_stages(result),
        settings=_flat(result.settings),
        versions=versions(),
    )


def _scores(result: Adaptation, labels: Tensor | None, mask: Tensor | None) -> list[Change]:
    if labels is None:
        return []
    labels, mask = labels.cpu(), None if mask is None else mask.cpu()
    before = evaluate(result.labels_before.cpu(), labels, mask).as_dict()
    after = evaluate(result.labels.cpu(), labels, mask).as_dict()
    return [Change(SCORES.get(name, name), before[name], after[name]) for name in before]


def _gamma(result: Adaptation) -> list[Change]:
    before, after = result.gamma_before.flatten().tolist(), result.gamma.flatten().tolist()
    return [Change(str(k), *pair) for k, pair in enumerate(zip(before, after, strict=True))]


def _stages(result: Adaptation) -> list[Stage]:
    """The final prediction has a forward pass and a loss, too: it counts as a round here."""
    rounds = len(result.history.loss)
    return [
        Stage(name, seconds, None if name in ONCE else seconds / rounds)
        for name, seconds in result.seconds.items()
    ]


def _flat(settings: dict[str, Any]) -> list[tuple[str, str]]:
    """Rows of name and value; a dictionary inside becomes one row per entry."""
    rows: list[tuple[str, str]] = []
    for name, value in settings.items():
        if isinstance(value, dict):
            rows += [(f"{name}: {inner}", text) for inner, text in _flat(value)]
        else:
            rows.append((name, str(value)))
    return [(name.replace("_", " "), text) for name, text in rows]


def _number(value: float, decimals: int = 4, signed: bool = False) -> str:
    """Formatted, with a proper minus and no negative zero.

    Example:
        >>> _number(-0.5, 2), _number(-1e-9, signed=True), _number(math.nan)
        ('−0.50', '+0.0000', 'not finite')
    """
    if not math.isfinite(value):
        return "not finite"
    return format(value, f"{'+' if signed else ''}z.{decimals}f").replace("-", "−")


def _percent(value: float, decimals: int = 2, signed: bool = False) -> str:
    return f"{_number(100 * value, decimals, signed)} %"
