"""GraphPatcher: training its patcher, patching a target, and a round of Matcha after that.

Run: OMP_NUM_THREADS=1 python benchmarks/graphpatcher.py [--nodes 5000] [--features 2000]
Prints one JSON object; times of rounds are the best of the repeats, all in one run.
"""

import argparse
import json
from time import perf_counter

import torch

import matcha_gnn as mg
from matcha_paper.timing import best_seconds

ROUNDS = 50


def round_seconds(
    model: mg.Backbone, graph: mg.Graph, method: mg.BaseMethod, repeats: int
) -> float:
    """Without setup, whose jitter is larger than all rounds together."""
    hops = model.hops(graph)

    def rounds_seconds(rounds: int) -> float:
        seconds = mg.gamma.run(model, graph, method, mg.Matcha(rounds=rounds), hops=hops).seconds
        return sum(seconds[stage] for stage in ("forward", "loss", "backward", "update"))

    none, some = (min(rounds_seconds(n) for _ in range(repeats)) for n in (1, ROUNDS + 1))
    return (some - none) / ROUNDS


def patching_seconds(
    model: mg.Backbone, graph: mg.Graph, method: mg.GraphPatcher, repeats: int
) -> float:
    view = mg.View(model, graph, model.hops(graph), model.gamma, seed=0)
    with torch.no_grad():
        return best_seconds(lambda: method.prepare(view), repeats)


def measure(nodes: int, features: int, repeats: int) -> dict[str, float]:
    source, target = (
        mg.datasets.csbm(nodes, features, homophily=homophily, seed=seed)
        for seed, homophily in enumerate((0.8, 0.2))
    )
    model, method = mg.GPRGNN(features, 2), mg.GraphPatcher()
    mg.fit(model, source, epochs=20)
    everyone = torch.ones(nodes, dtype=torch.bool)
    start = perf_counter()
    arrays = method.source_arrays(model, mg.unlabelled(source), source.y, everyone, 0)
    training = perf_counter() - start
    model.source_arrays = {method.name: arrays}
    model.frozen()
    inference = best_seconds(lambda: model(target.x, target.edge_index), repeats)
    graph = mg.unlabelled(target)
    patching = [patching_seconds(model, graph, mg.GraphPatcher(p), repeats) for p in (1, 5)]
    rounds = [round_seconds(model, graph, m, repeats) for m in (mg.ERM(), method)]
    return {
        "nodes": nodes,
        "features": features,
        "training_s": training,
        "patches": int(arrays["patches"]),
        "inference_ms": 1e3 * inference,
        "patching_1_in_inferences": patching[0] / inference,
        "patching_5_in_inferences": patching[1] / inference,
        "erm_round_share_of_inference": rounds[0] / inference,
        "graphpatcher_round_share_of_inference": rounds[1] / inference,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--features", type=int, default=2000)
    parser.add_argument("--repeats", type=int, default=20)
    args = parser.parse_args()
    print(json.dumps(measure(args.nodes, args.features, args.repeats), indent=2))


if __name__ == "__main__":
    main()
