"""Hops streamed from host memory to a GPU: equal to hops on the GPU, and how near the copy's bound.

python benchmarks/host_hops.py [NODES]   writes results/scale-gpu.json
"""

import json
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import torch

import matcha_gnn as mg
from matcha_gnn.graphs.memory import unlabelled
from matcha_gnn.graphs.stored.host import host_hops, hosted
from matcha_paper.timing import best_seconds

FEATURES, WIDTH, HOPS, LIMIT = 32, 32, 9, 512 << 20
ROUNDS, TEN_ROUNDS = (5, 25), mg.Matcha(rounds=10)
RECORD = Path(__file__).parents[1] / "results" / "scale-gpu.json"


def trained() -> mg.Backbone:
    source = mg.datasets.csbm(5000, FEATURES, degree=10, homophily=0.8, seed=10)
    model = mg.GPRGNN(FEATURES, 2, WIDTH, HOPS)
    mg.fit(model, source, epochs=200, seed=10)
    return model.frozen()


def copy_seconds(size: int) -> float:
    """Seconds in which so many pinned bytes reach the GPU."""
    block = torch.empty(256 << 20, dtype=torch.uint8, pin_memory=True)
    there = torch.empty_like(block, device="cuda")
    seconds = best_seconds(lambda: there.copy_(block, non_blocking=True), 5)
    return seconds * size / block.numel()


def round_seconds(model: mg.Backbone, graph: Any, method: mg.BaseMethod) -> float:
    """Seconds of one round: what many rounds take beyond few, without what is done once."""
    spent = []
    for rounds in ROUNDS:
        result = mg.adapt(model, graph, method, mg.Matcha(lr=1e-3, rounds=rounds))
        spent.append(sum(result.seconds[s] for s in ("forward", "loss", "backward", "update")))
    return (spent[1] - spent[0]) / (ROUNDS[1] - ROUNDS[0])


def compared(model: mg.Backbone, graph: Any, method: mg.BaseMethod, bound: float) -> dict[str, Any]:
    # A GPU with room for the hops would keep them.
    on_host = hosted(unlabelled(graph), LIMIT)
    here = mg.adapt(model, graph, method, TEN_ROUNDS)
    torch.cuda.reset_peak_memory_stats()
    away = mg.adapt(model, on_host, method, TEN_ROUNDS)
    peak = torch.cuda.max_memory_allocated()
    on_gpu, streamed = (round_seconds(model, each, method) for each in (graph, on_host))
    return {
        "method": method.name,
        "largest_difference_of_probabilities": float((here.probs - away.probs).abs().max()),
        "largest_difference_of_gamma": float((here.gamma - away.gamma).abs().max()),
        "round_ms_on_gpu": 1e3 * on_gpu,
        "round_ms_streamed": 1e3 * streamed,
        "copy_bound_ms": 1e3 * bound,
        "streamed_over_copy_bound": streamed / bound,
        "peak_gpu_bytes_streamed": peak,
    }


def from_store(model: mg.Backbone, method: mg.BaseMethod) -> dict[str, Any]:
    """A model on the GPU and a graph in a folder, against the same graph on the GPU."""
    graph = mg.datasets.csbm(200_000, FEATURES, degree=10, homophily=0.2, seed=12)
    here = mg.adapt(model, graph.to("cuda"), method, TEN_ROUNDS)
    with tempfile.TemporaryDirectory() as folder:
        store = mg.GraphStore.create(folder, graph.to("cpu"))
        # By default, half of what is free: this process holds much that is pinned already.
        away = mg.adapt(model, store, method, TEN_ROUNDS)
    difference = float((here.probs - away.probs).abs().max())
    return {"method": method.name, "largest_difference_of_probabilities": difference}


def main() -> None:
    nodes = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000_000
    model = trained().to("cuda")
    graph = mg.datasets.csbm(nodes, FEATURES, degree=10, homophily=0.2, seed=11).to("cuda")
    hops = host_hops(model, unlabelled(graph), LIMIT)
    size = 4 * nodes * (HOPS + 1) * WIDTH
    bound = copy_seconds(size)
    record: dict[str, Any] = {"gpu": torch.cuda.get_device_name(), "nodes": nodes}
    record |= {"stack_bytes": size, "limit_bytes": LIMIT, "blocks": sum(1 for _ in hops.blocks())}
    del hops
    methods = [mg.ERM(), mg.T3A(), mg.Tent()]
    for name, compare in (
        ("methods", partial(compared, graph=graph, bound=bound)),
        ("from_store", from_store),
    ):
        record[name] = []
        for method in methods:
            record[name].append(compare(model=model, method=method))
            RECORD.write_text(json.dumps(record, indent=2) + "\n")
            print(record[name][-1], flush=True)


if __name__ == "__main__":
    main()
