"""From a PyG Data to a result: `predict` and `adapt` beside PyG's own inference of the network.

The yardstick is GPRGNN made of PyG's parts, from `edge_index`: `gcn_norm`, then a `propagate` for
each hop. Every figure is the best of several runs, and every size is measured in one process, in
turns: PyG, `predict`, the strategies, PyG again. `autograd` is the published algorithm without a
cache: each round propagates, and differentiates through it. Memory is the peak beyond the graph and
the model. `seconds` of a result add up to `inside`, the share of the wall clock that they explain.

With --networks: plain networks of PyG (GCN, GraphSAGE, GAT), whose own inference is the yardstick
of `estimate` and `adapt` with a summary of their source.

Run: python benchmarks/whole.py [--device cuda] [--full] [--networks]
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from common import arguments, peak_memory, store
from inference import PlainGPRGNN
from torch_geometric.nn import GAT, GCN, GraphSAGE

import matcha_gnn as mg
from matcha_gnn.gamma import functional
from matcha_gnn.gamma.timing import Stopwatch

# nodes, features
SIZES = [(5_000, 2_000), (100_000, 128), (1_000_000, 32)]
FULL = [*SIZES, (10_000_000, 8)]
ROUNDS = 50
STRATEGIES = {
    "default": None,
    "matcha": mg.Matcha(lr=1e-3, rounds=ROUNDS),
    "closed_form": mg.ClosedForm(),
}
NETWORKS = {"GCN": GCN, "GraphSAGE": GraphSAGE, "GAT": GAT}
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


def in_turns(works: Iterable[Timed], nodes: int) -> None:
    """Several times, the first of which does not count."""
    for number in range(1 + (11 if nodes <= 10_000 else 5 if nodes <= 100_000 else 3)):
        for each in works:
            each.run()
            if number == 0:
                each.seconds.clear()


def plain_network(name: str, features: int, device: str) -> tuple[torch.nn.Module, Any]:
    """A network trained as its users do, and the summary of its source."""
    source = mg.datasets.csbm(5_000, features, homophily=0.8, seed=0)
    torch.manual_seed(0)
    net = NETWORKS[name](features, 32, num_layers=2, out_channels=2)
    steps = torch.optim.Adam(net.parameters(), lr=0.01)
    for _ in range(20):
        steps.zero_grad()
        torch.nn.functional.cross_entropy(net(source.x, source.edge_index), source.y).backward()
        steps.step()
    net = net.eval().requires_grad_(False)
    summary = mg.summarise_source(net, source)
    return net.to(device), summary


@torch.no_grad()
def own_probs(net: torch.nn.Module, graph: Any) -> torch.Tensor:
    return net(graph.x, graph.edge_index).softmax(1)


def measure_network(name: str, nodes: int, features: int, device: str) -> dict[str, object]:
    """`estimate` and `adapt` in units of the network's own inference, and peaks of memory."""
    net, summary = plain_network(name, features, device)
    graph = mg.datasets.csbm(nodes, features, homophily=0.2, seed=1).to(device)
    works = {
        "own": lambda: own_probs(net, graph),
        "estimate": lambda: mg.estimate(net, graph, source=summary),
        "adapt": lambda: mg.adapt(net, graph, source=summary),
    }
    timed = {name: Timed(work, device) for name, work in works.items()}
    in_turns(timed.values(), nodes)
    own, result = timed["own"].best, timed["adapt"].result
    apart = (timed["own"].result - result.probs_before).abs().max()
    row: dict[str, object] = {"network": name, "nodes": nodes, "features": features}
    row |= {"own_ms": 1e3 * own, "largest_difference": float(apart), "chosen": result.chosen}
    row |= {f"{way}_of_own": timed[way].best / own for way in ("estimate", "adapt")}
    row["adapt_inside"] = sum(result.seconds.values()) / timed["adapt"].seconds[-1]
    row["adapt_seconds"] = dict(result.seconds)
    for way, each in timed.items():
        each.result = None
        row[f"{way}_peak_mb"] = peak_memory(works[way], device) / 1e6
    print(row, flush=True)
    return row


def measure(nodes: int, features: int, device: str) -> tuple[dict[str, object], dict[str, object]]:
    """Ratios to PyG's inference, and what they are made of: seconds by stage, peaks of memory."""
    model = trained(features, device).requires_grad_(False)
    graph = mg.datasets.csbm(nodes, features, homophily=0.2, seed=1).to(device)
    plain = PlainGPRGNN(model)
    works = {"pyg": lambda: pyg_probs(plain, graph), "predict": lambda: mg.predict(model, graph)}
    for name, strategy in STRATEGIES.items():
        works[name] = lambda strategy=strategy: mg.adapt(model, graph, strategy=strategy)
    timed = {name: Timed(work, device) for name, work in works.items()}
    in_turns(timed.values(), nodes)
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
    parser = arguments(__doc__)
    parser.add_argument("--networks", action="store_true", help="plain networks of PyG instead")
    parser.add_argument("--most", type=int, help="leave out graphs of more nodes")
    args = parser.parse_args()
    sizes = [s for s in (FULL if args.full else SIZES) if s[0] <= (args.most or s[0])]
    if args.networks:
        rows = [measure_network(name, *size, args.device) for size in sizes for name in NETWORKS]
        store("networks", args, {"shapes": rows}, "whole.py --networks")
        return
    measured = [measure(*size, args.device) for size in sizes]
    rows, parts = zip(*measured, strict=True)
    store("whole", args, {"shapes": list(rows), "parts": list(parts)})


if __name__ == "__main__":
    main()
