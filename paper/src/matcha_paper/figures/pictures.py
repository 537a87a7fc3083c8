"""Pictures of one adaptation: t-SNE of representations, logits over the rounds."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from matcha_gnn.gamma.losses import LOSSES
from matcha_gnn.gamma.models import Backbone
from matcha_gnn.gamma.running import run
from matcha_gnn.gamma.strategies import ClosedForm, Matcha
from matcha_gnn.graphs.memory import unlabelled
from matcha_gnn.metrics import accuracy
from matcha_gnn.streams import Purpose, torch_stream
from matcha_gnn.typing import FloatArray
from matcha_paper.figures.margins import common_bins, draw_histograms, histogram_rows, margins
from matcha_paper.figures.numbers import Effort, Rows, column, distinct, select
from matcha_paper.figures.settings import setting
from matcha_paper.figures.style import CLASS_COLOURS, MARKERS, label, panels, save

if TYPE_CHECKING:
    from torch_geometric.data import Data

TABLE, COLUMN = "losses", "homo-hetero"
ROUNDS = (0, 10, 20, 30, 40, 50)
AFTER = {
    "entropy": "entropy",
    "pseudo_label": "pseudo-label",
    "difference": "difference",
    "pic": "PIC",
    "sure": "SURE, one exact step",
}
"""Losses, as the panels name them."""


def measure_representations(effort: Effort) -> Rows:
    """t-SNE of Z on the source, on the target before adaptation, and after it with each loss."""
    seed, shown = effort.seeds[0], 150 if effort.quick else 500
    of = setting(TABLE, COLUMN, seed, effort)
    rows = _embedded("source graph", of.model, of.source, shown, seed)
    rows += _embedded("target, before", of.model, of.target, shown, seed)
    for name, text in AFTER.items():
        loss = LOSSES[name]()
        strategy = ClosedForm(loss=loss) if name == "sure" else Matcha(loss=loss)
        adapted = run(of.model, of.target, strategy=strategy, seed=seed).backbone
        rows += _embedded(text, adapted, of.target, shown, seed)
    return rows


@torch.no_grad()
def _embedded(panel: str, model: Backbone, graph: "Data", shown: int, seed: int) -> Rows:
    """Points of some nodes, drawn as released graphs are sorted by class; accuracy on all."""
    from sklearn.manifold import TSNE

    z = model.representation(unlabelled(graph))
    score = accuracy(model.head(z), graph.y)
    # A loss without a scale of its own may have run away; t-SNE does not ask for the scale.
    some = torch.randperm(len(z), generator=torch_stream(seed, Purpose.EMBEDDED_NODES))[:shown]
    some = some.to(z.device)
    points = z[some].double().nan_to_num(posinf=1e30, neginf=-1e30).cpu().numpy()
    points /= np.abs(points).max() or 1
    flat = TSNE(random_state=seed, init="pca").fit_transform(points)
    flat = (flat - flat.mean(0)) / np.abs(flat - flat.mean(0)).max()
    return [
        {"panel": panel, "accuracy": score, "x": x, "y": y, "class": int(label_)}
        for (x, y), label_ in zip(flat.tolist(), graph.y[some].tolist(), strict=True)
    ]


def draw_representations(rows: Rows, folder: Path) -> list[Path]:
    """A panel per stage, points coloured and shaped by true class."""
    names = distinct(rows, "panel")
    with panels(2, 4, width=11, height=2.8) as (figure, axes):
        for name, one in zip(names, axes.flat, strict=False):
            for which in (0, 1):
                part = select(rows, panel=name, **{"class": which})
                style = {"color": CLASS_COLOURS[which], "marker": MARKERS[which], "alpha": 0.6}
                points = (column(part, "x"), column(part, "y"))
                one.scatter(*points, s=9, linewidths=0, rasterized=True, **style)
            score = select(rows, panel=name)[0]["accuracy"]
            one.set_title(f"{name}\n{score:.1%}", loc="left", fontsize=11)
            one.set_xticks([])
            one.set_yticks([])
        legend = axes.flat[len(names)]
        legend.axis("off")
        for which in (0, 1):
            style = {"color": CLASS_COLOURS[which], "marker": MARKERS[which]}
            legend.scatter([], [], label=f"class {which}", **style)
        shown = len(select(rows, panel=names[0]))
        legend.legend(loc="center", title=f"t-SNE of {shown} nodes;\naccuracy of all nodes")
        return save(figure, folder, "representations")


def measure_logits(effort: Effort) -> Rows:
    """Logit differences of both classes before and after some rounds of ERM + PIC."""
    seed = effort.seeds[0]
    of = setting(TABLE, COLUMN, seed, effort)
    model, done = of.model, 0
    found: dict[int, FloatArray] = {}
    for rounds in ROUNDS:
        if rounds > done:
            strategy = Matcha(rounds=rounds - done)
            model = run(model, of.target, strategy=strategy, seed=seed).backbone
            done = rounds
        found[rounds] = margins(model, of.target)
    edges = common_bins(list(found.values()))
    return [
        row
        for rounds, margin in found.items()
        for row in histogram_rows({"round": rounds}, margin, of.target.y, edges)
    ]


def draw_logits(rows: Rows, folder: Path) -> list[Path]:
    """A panel for each number of rounds."""
    with panels(2, 3, width=10, height=2.7, sharex=True) as (figure, axes):
        for rounds, one in zip(distinct(rows, "round"), axes.flat, strict=True):
            part = select(rows, round=rounds)
            draw_histograms(one, part)
            name = "before" if rounds == 0 else f"after {rounds} rounds"
            label(one, "", "", f"{name}: {part[0]['accuracy']:.1%}")
        for one in axes[-1]:
            one.set_xlabel("logit difference")
        figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
        return save(figure, folder, "logits")
