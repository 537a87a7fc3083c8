"""Two examples of what γ does: neighbours that say nothing, and too few of them."""

from pathlib import Path

import numpy as np

from matcha_gnn.typing import FloatArray
from matcha_paper.figures.numbers import Effort, Rows, column, distinct, select
from matcha_paper.figures.style import label, panels, save, two_classes
from matcha_paper.theory import expected_accuracy

EXAMPLES = (
    ("source", 10, 1.0, 10.0),
    ("homophily falls", 10, 0.5, 10.0),
    ("homophily falls, γ adapted", 10, 0.5, 0.0),
    ("source", 10, 1.0, 10.0),
    ("degree falls", 1, 1.0, 10.0),
    ("degree falls, γ adapted", 1, 1.0, 1.0),
)
"""Name, degree, homophily and γ of each panel; class means ±1, unit noise."""
EDGES = np.linspace(-3.5, 3.5, 71)


def measure(effort: Effort) -> Rows:
    """Draw nodes with their neighbours and histogram z = x + γ · mean, by class."""
    nodes = 4000 if effort.quick else 200_000
    rng = np.random.default_rng(effort.seeds[0])
    rows: Rows = []
    for panel, (name, degree, homophily, gamma) in enumerate(EXAMPLES):
        label_, z = _drawn(rng, nodes, degree, homophily, gamma)
        accuracy = float((np.sign(z) == label_).mean())
        facts = {"panel": panel, "name": name, "degree": degree, "homophily": homophily}
        facts |= {"gamma": gamma, "accuracy": accuracy}
        facts["expected"] = expected_accuracy(gamma, degree, homophily, 1.0)
        shares = [np.histogram(z[label_ == y], EDGES, density=True)[0] for y in (-1, 1)]
        rows += [
            facts | {"left": left, "class_0": low, "class_1": high}
            for left, low, high in zip(EDGES.tolist(), *np.array(shares).tolist(), strict=False)
        ]
    return rows


def _drawn(
    rng: np.random.Generator, nodes: int, degree: int, homophily: float, gamma: float
) -> tuple[FloatArray, FloatArray]:
    """Labels ±1 and representations, in units where source and target have one scale."""
    own = np.repeat([-1.0, 1.0], nodes // 2)
    alike = round(homophily * degree)
    kin = np.r_[np.ones(alike), -np.ones(degree - alike)]
    neighbours = own[:, None] * kin + rng.standard_normal((len(own), degree))
    z = own + rng.standard_normal(len(own)) + gamma * neighbours.mean(1)
    return own, z / (1 + gamma)


def draw(rows: Rows, folder: Path) -> list[Path]:
    """Six panels: source, shifted and adapted, for each of the two shifts."""
    with panels(2, 3, width=10, height=3.0, sharex=True, sharey=True) as (figure, axes):
        for panel, one in zip(distinct(rows, "panel"), axes.flat, strict=True):
            part = select(rows, panel=panel)
            facts = part[0]
            heights = np.array([column(part, "class_0"), column(part, "class_1")])
            two_classes(one, heights, EDGES)
            scores = f"{facts['accuracy']:.1%} right, theory {facts['expected']:.1%}"
            label(one, "", "", f"{facts['name']}\n{scores}")
            text = f"γ = {facts['gamma']:g}\nd = {facts['degree']}\nh = {facts['homophily']:g}"
            one.text(0.02, 0.95, text, transform=one.transAxes, va="top", fontsize=11)
        for one in axes[-1]:
            one.set_xlabel("representation / (1 + γ)")
        figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
        return save(figure, folder, "gamma")
