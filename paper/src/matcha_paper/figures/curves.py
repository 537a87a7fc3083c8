"""Loss and accuracy over the rounds: for the parameters that move, and for step sizes."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from matcha_gnn.gamma.running import run
from matcha_gnn.gamma.strategies import Matcha
from matcha_gnn.metrics import accuracy
from matcha_paper.figures.numbers import Effort, Row, Rows, column, distinct, mean_sd, select
from matcha_paper.figures.settings import Setting, setting
from matcha_paper.figures.style import band, label, panels, save

MOVES = {"gamma": "γ", "theta": "θ", "both": "γ and θ"}
RATES = (0.1, 0.3, 1.0, 3.0, 10.0)
DATA = {"syn-cora": "Syn-Cora", "syn-coauthor-cs": "Syn-CoauthorCS (stand-in)"}


def rounds_of(of: Setting, seed: int, **options: Any) -> Iterator[tuple[float, float]]:
    """Loss and accuracy before each round of ERM + PIC, for ever.

    Plain gradient steps keep nothing from round to round, so rounds run one by one are the rounds
    of one long run.
    """
    model, target = of.model, of.target
    while True:
        result = run(model, target, strategy=Matcha(rounds=1, **options), seed=seed)
        scored = accuracy(result.probs_before, target.y, target.get("test_mask"))
        yield result.trace.loss[0], scored
        model = result.backbone


def _curves(found: dict[tuple[str, str], list[list[tuple[float, float]]]]) -> Rows:
    """Mean and deviation over seeds, by data set, line and round."""
    rows: Rows = []
    for (data, line), by_seed in found.items():
        for number, at_round in enumerate(zip(*by_seed, strict=True)):
            losses, scores = zip(*at_round, strict=True)
            row: Row = {"data": data, "line": line, "round": number}
            row["loss"], row["loss_sd"] = mean_sd(losses)
            row["accuracy"], row["accuracy_sd"] = mean_sd([100 * score for score in scores])
            rows.append(row)
    return rows


def measure_parameters(effort: Effort) -> Rows:
    """γ, the encoder's θ, or both move, by steps of size 1."""
    length = 10 if effort.quick else 101
    data = list(DATA)[:1] if effort.quick else list(DATA)
    found: dict[tuple[str, str], list[list[tuple[float, float]]]] = {}
    for seed in effort.each_seed():
        for name in data:
            of = setting("table2", name, seed, effort)
            for moves in MOVES:
                steps = list(islice(rounds_of(of, seed, lr=1.0, moves=moves), length))
                found.setdefault((name, moves), []).append(steps)
    return _curves(found)


def draw_parameters(rows: Rows, folder: Path) -> list[Path]:
    """A row of panels per data set: loss on the left, accuracy on the right."""
    data = distinct(rows, "data")
    with panels(len(data), 2, width=10, height=3.1, sharex=True) as (figure, axes):
        for name, pair in zip(data, axes, strict=True):
            _pair(pair, select(rows, data=name), MOVES, DATA[name])
        _finish(figure, axes, "moved: ")
        return save(figure, folder, "parameters")


def measure_rates(effort: Effort) -> Rows:
    """Step sizes over two orders of magnitude on Syn-Cora."""
    length = 10 if effort.quick else 101
    found: dict[tuple[str, str], list[list[tuple[float, float]]]] = {}
    for seed in effort.each_seed():
        of = setting("hops", "K9", seed, effort)
        for rate in RATES:
            steps = list(islice(rounds_of(of, seed, lr=rate), length))
            found.setdefault(("syn-cora", f"{rate:g}"), []).append(steps)
    return _curves(found)


def draw_rates(rows: Rows, folder: Path) -> list[Path]:
    """Loss on the left, accuracy on the right, a line per step size."""
    with panels(1, 2, width=10, height=3.6, sharex=True) as (figure, axes):
        names = {line: f"{line:g}" for line in distinct(rows, "line")}
        _pair(axes[0], rows, names, DATA["syn-cora"])
        _finish(figure, axes, "η = ")
        return save(figure, folder, "learning-rate")


def _pair(pair: Any, rows: Rows, names: dict[Any, str], title: str) -> None:
    for number, (line, text) in enumerate(names.items()):
        part = select(rows, line=line)
        for one, key in zip(pair, ("loss", "accuracy"), strict=True):
            x, mean, sd = (column(part, each) for each in ("round", key, f"{key}_sd"))
            band(one, x, mean, sd, number, text)
    label(pair[0], "", "PIC loss", title)
    label(pair[1], "", "accuracy (%)")


def _finish(figure: Any, axes: Any, prefix: str) -> None:
    for one in axes[-1]:
        one.set_xlabel("rounds")
    handles, texts = axes[0, 0].get_legend_handles_labels()
    texts = [prefix + text for text in texts]
    figure.legend(handles, texts, loc="outside upper center", ncols=len(texts))
