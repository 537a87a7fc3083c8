"""From a PyG Data to a result: `predict` and `adapt` beside PyG's own inference of the network.

The yardstick is GPRGNN made of PyG's parts, from `edge_index`: `gcn_norm`, then a `propagate` for
each hop. Every figure is the best of several runs, and every size is measured in one process, in
turns: PyG, `predict`, the strategies, PyG again. `autograd` is the published algorithm without a
cache: each round propagates, and differentiates through it. Memory is the peak beyond the graph and
the model. `seconds` of a result add up to `inside`, the share of the wall clock that they explain.

Run: python benchmarks/whole.py [--device cuda] [--full]
"""

from collections.abc import Callable
from typing import Any

import torch
from common import arguments, peak_memory, store
from inference import PlainGPRGNN

import matcha_gnn as mg
from matcha_gnn import functional
from matcha_gnn.monitoring.timing import Stopwatch

# nodes, features
SIZES = [(5_000, 2_000), (100_000, 128), (1_000_000, 32)]
FULL = [*SIZES, (10_000_000, 8)]
ROUNDS = 50
STRATEGIES = {
    "default": mg.Guarded(),
    "matcha": mg.Matcha(lr=1e-3, rounds=ROUNDS),
    "closed_form": mg.ClosedForm(),
    "belief": mg.Belief(),
}
AUTOGRAD_ROUNDS = 2


class Timed:
    """One piece of work, run in turns with others."""

    def __init__(self, work: Callable[[], Any], device: str) -> None:
        self.work, self.device = work, torch.device(device)
        self.seconds: list[float] = []
        self.result: Any = None

    def run(self) -> None:
        watch = Stopwatch(self.device)
        with watch.stage("work"):
            self.result = self.work()
        self.seconds.append(watch.seconds["work"])

    @property
    def best(self) -> float:
        return min(self.seconds)


def trained(features: int, device: str) -> mg.GPRGNN:
    torch.manual_seed(0)
    model = mg.GPRGNN(features, 2, hidden_channels=32, K=9)
    mg.fit(model, mg.datasets.csbm(5_000, features, homophily=0.8, seed=0), epochs=20)
    return model.eval().to(device)


def uncached_round(plain: PlainGPRGNN, graph: Any) -> Callable[[], object]:
    """Some rounds by autograd through PyG's message passing, for each of which the hops are new."""
    head, gamma = plain.model.head, plain.model.gamma.detach().clone().requires_grad_()

    def rounds() -> None:
        for _ in range(AUTOGRAD_ROUNDS):
            z = plain.representation(graph.x, *plain.normalised(graph), gamma)
            probs = head(z.detach()).softmax(-1).detach()
            functional.pic(z, probs, 1e-9).backward()
            with torch.no_grad():
                gamma.sub_(gamma.grad, alpha=1e-3)
            gamma.grad = None

    return rounds


@torch.no_grad()
def pyg_probs(plain: PlainGPRGNN, graph: Any) -> torch.Tensor:
    return plain(graph.x, *plain.normalised(graph)).softmax(1)


def measure(nodes: int, features: int, device: str) -> tuple[dict[str, object], dict[str, object]]:
    """Ratios to PyG's inference, and what they are made of: seconds by stage, peaks of memory."""
    model = trained(features, device).requires_grad_(False)
    graph = mg.datasets.csbm(nodes, features, homophily=0.2, seed=1).to(device)
    plain = PlainGPRGNN(model)
    works = {"pyg": lambda: pyg_probs(plain, graph), "predict": lambda: mg.predict(model, graph)}
    for name, strategy in STRATEGIES.items():
        works[name] = lambda strategy=strategy: mg.adapt(model, graph, strategy=strategy)
    timed = {name: Timed(work, device) for name, work in works.items()}
    for number in range(1 + (11 if nodes <= 10_000 else 5 if nodes <= 100_000 else 3)):
        for each in timed.values():
            each.run()
            if number == 0:
                each.seconds.clear()
    apart = (timed["pyg"].result - timed["predict"].result.probs).abs().max()
    by_autograd = Timed(uncached_round(plain, graph), device)
    by_autograd.run()
    inference = timed["pyg"].best
    row: dict[str, object] = {"nodes": nodes, "features": features, "pyg_ms": 1e3 * inference}
    for name in works:
        if name != "pyg":
            row[f"{name}_of_pyg"] = timed[name].best / inference
    row["autograd_of_pyg"] = by_autograd.best * ROUNDS / AUTOGRAD_ROUNDS / inference
    row["largest_difference"] = float(apart)
    parts: dict[str, object] = {"nodes": nodes}
    for name, work in works.items():
        result = timed[name].result
        timed[name].result = None
        parts[f"{name}_peak_mb"] = peak_memory(work, device) / 1e6
        if name != "pyg":
            parts[f"{name}_seconds"] = result.seconds
            parts[f"{name}_inside"] = sum(result.seconds.values()) / timed[name].seconds[-1]
    print("  ".join(f"{key} {value:,.4g}" for key, value in row.items()), flush=True)
    return row, parts


def main() -> None:
    args = arguments(__doc__).parse_args()
    measured = [measure(*size, args.device) for size in (FULL if args.full else SIZES)]
    rows, parts = zip(*measured, strict=True)
    store("whole", args, {"shapes": list(rows), "parts": list(parts)})


if __name__ == "__main__":
    main()
