"""What adaptation costs beside one inference, stage by stage, as in the paper's time table."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from matcha_gnn.datasets import csbm
from matcha_gnn.gamma import methods
from matcha_gnn.gamma.methods import BaseMethod
from matcha_gnn.gamma.models import GPRGNN, Backbone
from matcha_gnn.gamma.running import run
from matcha_gnn.gamma.strategies import Matcha, Unadapted
from matcha_gnn.gamma.train import fit
from matcha_gnn.graphs.memory import unlabelled
from matcha_gnn.report.palette import BLUE, ORANGE
from matcha_paper.experiments.spec import published
from matcha_paper.figures.numbers import Effort, Row, Rows, column
from matcha_paper.figures.style import panels, save
from matcha_paper.timing import best_seconds

if TYPE_CHECKING:
    from torch_geometric.data import Data

METHODS: dict[str, Callable[[], BaseMethod]] = {
    "ERM": methods.ERM,
    "T3A": lambda: methods.T3A(k=2000),
    "Tent": lambda: methods.Tent(steps=1, lr=0.1),
    "AdaNPC": lambda: methods.AdaNPC(k=10, temperature=0.001),
    "GTrans": lambda: _gtrans(5),
    "SOGA": lambda: methods.SOGA(steps=1, lr=0.1),
    "GraphPatcher": lambda: methods.GraphPatcher(patches=1),
}
OWN_STEPS: dict[str, tuple[Callable[[int], BaseMethod], int, int]] = {
    "Tent": (lambda n: methods.Tent(steps=n, lr=0.1), 1, 11),
    "SOGA": (lambda n: methods.SOGA(steps=n, lr=0.1), 1, 6),
    "GTrans": (lambda n: _gtrans(n), 5, 15),
}
"""Methods with steps of their own: how to make one, and two numbers of steps to compare."""
STAGES = {"forward": "forward", "loss": "PIC loss", "backward": "backward", "update": "update"}


def _gtrans(epochs: int) -> BaseMethod:
    return methods.GTrans(lr_feat=1e-5, lr_adj=0.01, epochs=epochs, ratio=0.05)


def source_model(features: int, device: str = "cpu") -> Backbone:
    """A model whose training is long enough for its shapes: what it costs is asked, no more."""
    source = csbm(5000, features, homophily=0.8, seed=0).to(device)
    model = GPRGNN(features, 2, hidden_channels=32, K=9).to(device)
    fit(model, source, epochs=20, methods=[methods.AdaNPC(), methods.GraphPatcher(iterations=20)])
    return model.frozen()


class Clock:
    """Seconds of adaptations of one model to one graph, the hops being there already."""

    def __init__(self, model: Backbone, graph: "Data", repeats: int) -> None:
        self.model, self.graph, self.repeats = model, graph, repeats
        self.hops = model.hops(unlabelled(graph))
        self.stages(methods.ERM(), 1)

    def stages(self, method: BaseMethod, rounds: int) -> dict[str, float]:
        """The least seconds by stage over the repeats; `setup` once, others over all rounds."""
        strategy = Matcha(lr=1e-3, rounds=rounds) if rounds else Unadapted()
        runs = [
            run(self.model, self.graph, method, strategy, hops=self.hops).seconds
            for _ in range(self.repeats)
        ]
        return {stage: min(each.get(stage, 0.0) for each in runs) for stage in ("setup", *STAGES)}

    def own_step(self, make: Callable[[int], BaseMethod], few: int, many: int) -> float:
        """Seconds of one step that a method takes by itself."""
        apart = [sum(self.stages(make(steps), 0).values()) for steps in (few, many)]
        return (apart[1] - apart[0]) / (many - few)


def measure(effort: Effort) -> Rows:
    """A row for each method and stage, in milliseconds and in shares of one inference."""
    nodes, features = (1000, 100) if effort.quick else (5000, 2000)
    rounds, repeats = (3, 2) if effort.quick else (20, 5)
    model = source_model(features, effort.device)
    graph = csbm(nodes, features, homophily=0.2, seed=1).to(effort.device)
    inference = best_seconds(lambda: float(model(graph.x, graph.edge_index).sum()), repeats)
    rows = [_row("inference", "", inference, inference)]
    clock = Clock(model, graph, repeats)
    for done, (name, make) in enumerate(METHODS.items()):
        seconds = clock.stages(make(), rounds)
        parts = {text: seconds[stage] / (rounds + 1) for stage, text in STAGES.items()}
        rows.append(_row(f"{name} + Matcha", "a round", sum(parts.values()), inference))
        if name in ("ERM", "T3A"):
            rows += [_row(f"{name} + Matcha", text, s, inference) for text, s in parts.items()]
        if name in OWN_STEPS:
            rows.append(_row(name, "own step", clock.own_step(*OWN_STEPS[name]), inference))
        if effort.progress:
            effort.progress(done + 1, len(METHODS))
    return rows


def _row(method: str, stage: str, seconds: float, inference: float) -> Row:
    paper: Any = published("time").get(method, {}).get(stage, (None,))
    return {
        "method": method,
        "stage": stage,
        "milliseconds": 1e3 * seconds,
        "percent_of_inference": 100 * seconds / inference,
        "paper_percent": paper[0],
    }


def draw(rows: Rows, folder: Path) -> list[Path]:
    """Bars on a logarithmic axis, the paper's beside ours where it has a number."""
    shown = [row for row in rows if row["stage"] in ("a round", "own step")][::-1]
    names = [f"{r['method']}, {r['stage']}".replace("a round", "round") for r in shown]
    place = np.arange(len(shown))
    with panels(1, 1, width=9, height=4.6) as (figure, axes):
        one = axes[0, 0]
        ours = np.array(column(shown, "percent_of_inference"), float)
        paper = np.array([p or np.nan for p in column(shown, "paper_percent")], float)
        one.barh(place + 0.19, ours, 0.36, color=BLUE, label="ours")
        one.barh(place - 0.19, paper, 0.36, color=ORANGE, hatch="//", label="paper")
        for y, ours_, paper_ in zip(place, ours, paper, strict=True):
            one.text(ours_ * 1.06, y + 0.19, f"{ours_:.3g}%", va="center", fontsize=10)
            if np.isfinite(paper_):
                one.text(paper_ * 1.06, y - 0.19, f"{paper_:.3g}%", va="center", fontsize=10)
        one.set_xscale("log")
        one.set_yticks(place, names)
        one.set_xlabel("time, in % of one inference on the same graph")
        one.grid(axis="x")
        one.set_xlim(1, 2500)
        figure.legend(*one.get_legend_handles_labels(), loc="outside upper center", ncols=2)
        return save(figure, folder, "time")
