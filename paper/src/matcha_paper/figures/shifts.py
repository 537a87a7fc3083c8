"""What the two kinds of shift do: to the distribution of representations, and to accuracy."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from matcha_gnn.datasets import csbm
from matcha_gnn.report.palette import BLUE, GREEN, ORANGE
from matcha_gnn.typing import FloatArray
from matcha_paper import theory
from matcha_paper.figures.margins import common_bins, draw_histograms, histogram_rows, margins
from matcha_paper.figures.numbers import Effort, Row, Rows, column, distinct, mean_sd, select
from matcha_paper.figures.settings import setting
from matcha_paper.figures.style import label, panels, save

if TYPE_CHECKING:
    from torch_geometric.data import Data

SOURCE = {"degree": 10.0, "homophily": 0.9}
SWEEPS = {
    "shift": (0.0, 0.2, 0.4, 0.6, 0.8, 1.0),
    "homophily": (0.9, 0.8, 0.7, 0.6, 0.55),
    "degree": (10.0, 8.0, 6.0, 4.0, 3.0, 2.0),
}
"""What is varied on the target, and its values; the first is the source's."""
ONE_HOP = 1.0
"""γ of the single-layer model that the theory is about."""


def measure_pattern(effort: Effort) -> Rows:
    """Logit differences of both classes on the source, under attribute and structure shift."""
    seed = effort.seeds[0]
    attribute = setting("cover", "attribute", seed, effort)
    structure = setting("cover", "homophily", seed, effort)
    shown = {
        "source graph": attribute.source,
        "attribute shift": attribute.target,
        "structure shift": structure.target,
    }
    found = {name: margins(attribute.model, graph) for name, graph in shown.items()}
    edges = common_bins(list(found.values()))
    rows: Rows = []
    for name, margin in found.items():
        cut, best = best_threshold(margin, shown[name].y.cpu().numpy())
        facts: Row = {"panel": name, "boundary": cut, "best": best}
        rows += histogram_rows(facts, margin, shown[name].y, edges)
    return rows


def best_threshold(score: FloatArray, truth: FloatArray) -> tuple[float, float]:
    """Where a cut, with class 1 on either side, is right most often; and how often that is."""
    order = np.argsort(score)
    ones = np.r_[0, np.cumsum(truth[order])]
    below = np.arange(len(score) + 1)
    above = (below - ones + ones[-1] - ones) / len(score)
    place = int(np.argmax(np.maximum(above, 1 - above)))
    sorted_ = score[order]
    cut = sorted_[[max(place - 1, 0), min(place, len(score) - 1)]].mean()
    return float(cut), float(max(above[place], 1 - above[place]))


def draw_pattern(rows: Rows, folder: Path) -> list[Path]:
    """Three panels of two histograms each, with the source's boundary and the best one."""
    with panels(1, 3, width=11, height=3.4, sharex=True) as (figure, axes):
        for name, one in zip(distinct(rows, "panel"), axes[0], strict=True):
            part = select(rows, panel=name)
            draw_histograms(one, part)
            facts = part[0]
            best = {"color": GREEN, "linewidth": 2.2, "linestyle": "-.", "label": "best boundary"}
            one.axvline(facts["boundary"], **best)
            scores = f"source boundary {facts['accuracy']:.1%}, best {facts['best']:.1%}"
            label(one, "logit difference", "", f"{name}\n{scores}")
        figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=4)
        return save(figure, folder, "pattern")


def measure_gap(effort: Effort) -> Rows:
    """Accuracy lost to the representation and to the classifier, measured and by theory."""
    nodes = 2000 if effort.quick else 20_000
    lost: dict[tuple[str, float], list[tuple[float, float]]] = {}
    for seed in effort.each_seed():
        source = _graph(nodes, seed, "shift", 0.0)
        for what, values in SWEEPS.items():
            for value in values:
                target = _graph(nodes, 1000 + seed, what, value)
                lost.setdefault((what, value), []).append(_parts(source, target))
    return [_gap_row(what, value, parts) for (what, value), parts in lost.items()]


def _graph(nodes: int, seed: int, what: str, value: float) -> "Data":
    options: dict[str, Any] = {"shift": 0.0, **SOURCE, what: value}
    return csbm(nodes, 1, signal=1.0, seed=seed, **options)


def _parts(source: "Data", target: "Data") -> tuple[float, float]:
    """The loss that no classifier undoes, and the loss that a new one would."""
    cut, at_home = best_threshold(_one_hop(source), 1 - source.y.numpy())
    z, truth = _one_hop(target), 1 - target.y.numpy()
    here, (_, best) = float(((z > cut) == truth).mean()), best_threshold(z, truth)
    return at_home - best, best - here


def _one_hop(graph: "Data") -> FloatArray:
    """x_i + γ · mean of the neighbours' x, [N]; class 0 is the one with positive mean."""
    sender, receiver = graph.edge_index
    x = graph.x[:, 0].double()
    total = torch.zeros_like(x).index_add_(0, receiver, x[sender])
    degree = torch.bincount(receiver, minlength=len(x)).clamp_min(1)
    z: FloatArray = (x + ONE_HOP * total / degree).numpy()
    return z


def _gap_row(what: str, value: float, parts: list[tuple[float, float]]) -> Row:
    options = {"shift": 0.0, **SOURCE, what: value}
    expected = theory.accuracy_gap(
        ONE_HOP,
        source_degree=SOURCE["degree"],
        source_homophily=SOURCE["homophily"],
        target_degree=options["degree"],
        target_homophily=options["homophily"],
        signal=1.0,
        shift_norm=options["shift"],
    )
    (f_mean, f_sd), (g_mean, g_sd) = (mean_sd(each) for each in zip(*parts, strict=True))
    return {
        "varied": what,
        "value": value,
        "delta_f": f_mean,
        "delta_f_sd": f_sd,
        "delta_f_theory": expected.representation_degradation,
        "delta_g": g_mean,
        "delta_g_sd": g_sd,
        "delta_g_theory": expected.classifier_bias,
    }


def draw_gap(rows: Rows, folder: Path) -> list[Path]:
    """One panel per kind of shift: lines by theory, points as measured."""
    names = {"shift": "attribute shift", "homophily": "homophily shift", "degree": "degree shift"}
    axis = {"shift": "length of the shift", "homophily": "homophily", "degree": "degree"}
    parts = (
        ("delta_f", "Δf, representation", BLUE, "o"),
        ("delta_g", "Δg, classifier", ORANGE, "s"),
    )
    with panels(1, 3, width=11, height=3.4, sharey=True) as (figure, axes):
        for what, one in zip(names, axes[0], strict=True):
            part = select(rows, varied=what)
            x = column(part, "value")
            for key, text, colour, marker in parts:
                theory_line = 100 * np.array(column(part, f"{key}_theory"))
                found = 100 * np.array(column(part, key))
                spread = 100 * np.array(column(part, f"{key}_sd"))
                one.plot(x, theory_line, color=colour, label=f"{text}: theory")
                style = {"linestyle": "none", "marker": marker, "color": colour, "capsize": 3}
                one.errorbar(x, found, spread, label=f"{text}: measured", **style)
            label(one, f"{axis[what]} of the target", "", names[what])
            if what != "shift":
                one.invert_xaxis()
        axes[0, 0].set_ylabel("accuracy lost (points)")
        handles = axes[0, 0].get_legend_handles_labels()
        figure.legend(*handles, loc="outside upper center", ncols=4, fontsize=10)
        return save(figure, folder, "gap")
