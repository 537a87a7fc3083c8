"""One adaptation epoch: the sums form beside cached autograd and beside one inference.

Run: python benchmarks/epoch.py [--nodes 5000] [--repeats 60]
Prints one JSON object; every figure is the best of the repeats, in one run on one machine.
"""

import argparse
import json
import platform
from collections.abc import Callable
from pathlib import Path

import torch

import matcha_gnn as mg
from matcha_gnn import functional
from matcha_gnn.figures.time import best_seconds

EPOCHS = 50


def cached_autograd_epoch(model: mg.Backbone, hop_major: torch.Tensor) -> Callable[[], None]:
    """The plain form on cached hops, laid out hop by hop as suits autograd best."""
    gamma = model.gamma.detach().clone().requires_grad_(True)
    steps = torch.optim.SGD([gamma], lr=1e-3, foreach=False)

    def epoch() -> None:
        steps.zero_grad()
        z = torch.tensordot(gamma, hop_major, 1)
        probs = (z.detach() @ model.head.weight.T).softmax(-1)
        functional.pic(z, probs, 1e-9).backward()
        steps.step()

    return epoch


def measure(nodes: int, features: int, width: int, hops: int, repeats: int) -> dict[str, float]:
    graph = mg.datasets.csbm(nodes, features, homophily=0.2, seed=1)
    model = mg.GPRGNN(features, 2, hidden_channels=width, K=hops).frozen()
    inference = best_seconds(lambda: model(graph.x, graph.edge_index), repeats)
    cached = model.hops(mg.unlabelled(graph))
    plain = best_seconds(
        cached_autograd_epoch(model, cached.stack.transpose(0, 1).contiguous()), 10 * repeats
    )
    none = best_seconds(
        lambda: mg.adapt(model, graph, hops=cached, epochs=0, protect=False), repeats
    )
    some = best_seconds(
        lambda: mg.adapt(
            model, graph, hops=cached, epochs=EPOCHS, optimizer="sgd", lr=1e-3, protect=False
        ),
        repeats,
    )
    ours = (some - none) / EPOCHS
    return {
        "nodes": nodes,
        "features": features,
        "width": width,
        "hops": hops,
        "inference_ms": 1e3 * inference,
        "cached_autograd_epoch_ms": 1e3 * plain,
        "sums_epoch_ms": 1e3 * ours,
        "speedup_over_cached_autograd": plain / ours,
        "share_of_inference": ours / inference,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--features", type=int, default=2000)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--hops", type=int, default=9)
    parser.add_argument("--repeats", type=int, default=60)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    record = measure(args.nodes, args.features, args.width, args.hops, args.repeats)
    record |= {
        "command": f"python benchmarks/epoch.py --nodes {args.nodes}",
        "machine": f"{platform.machine()}, {torch.get_num_threads()} threads",
        "torch": torch.__version__,
    }
    text = json.dumps(record, indent=2)
    print(text)
    if args.out:
        args.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
