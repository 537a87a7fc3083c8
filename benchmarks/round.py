"""One round of adaptation beside its bound, its reference implementation and cached autograd.

`shapes`: predictions, loss and gradient in the hop weights, from random hops. `read_ms` is one sum
over the stack; `bound_ms` is its bytes over the bandwidth of a copy, in the same run. `round`: a
whole round of `adapt` on a CSBM graph beside one inference, and the memory that `adapt` takes at
its peak beside the stack.

Run: python benchmarks/round.py [--device cuda] [--full]
Every figure is the best of several, in one run on one machine.
"""

from collections.abc import Callable

import numpy as np
import torch
from common import arguments, copy_bandwidth, peak_memory, repeats_for, store

import matcha_gnn as mg
from matcha_gnn.gamma import functional
from matcha_gnn.gamma.hops import Hops
from matcha_gnn.kernels import reference
from matcha_paper.timing import best_seconds

ROUNDS = 50
# nodes, width, hops, classes
SHORT = [
    (5_000, 32, 9, 2),
    (100_000, 32, 9, 2),
    (1_000_000, 32, 9, 2),
    (100_000, 8, 9, 2),
    (100_000, 128, 9, 2),
    (100_000, 32, 9, 10),
    (100_000, 128, 5, 10),
    (100_000, 128, 5, 40),
]
FULL = [
    *SHORT,
    (1_000_000, 32, 9, 10),
    (1_000_000, 128, 5, 40),
    (10_000_000, 8, 9, 2),
    (10_000_000, 32, 9, 2),
]


def cached_autograd_round(weight: torch.Tensor, hop_major: torch.Tensor) -> Callable[[], None]:
    """The plain form on cached hops, laid out hop by hop as suits autograd best."""
    gamma = torch.rand(len(hop_major), device=weight.device).requires_grad_(True)
    steps = torch.optim.SGD([gamma], lr=1e-3, foreach=False)

    def one_round() -> None:
        steps.zero_grad()
        z = torch.tensordot(gamma, hop_major, 1)
        probs = (z.detach() @ weight.T).softmax(-1)
        functional.pic(z, probs, 1e-9).backward()
        steps.step()

    return one_round


def sums_round(hops: Hops, head: torch.nn.Linear) -> Callable[[], object]:
    hop_weights = torch.rand(hops.stack.shape[1], device=hops.stack.device)
    on_host, total = np.array(hop_weights.tolist()), hops.gram

    def one_round() -> object:
        probs, sums, mass = hops.classify(hop_weights, head)
        between = hops.between_slope(on_host, probs, mass, sums, 1e-9)
        return functional.pic_from_slopes(on_host, between, total @ on_host)

    return one_round


def reference_round(hops: Hops, head: torch.nn.Linear) -> Callable[[], object]:
    hop_weights, mean, total = torch.rand(hops.stack.shape[1]).to(hops.stack), hops.mean, hops.gram
    on_host = np.array(hop_weights.tolist())

    def one_round() -> object:
        probs = head(reference.mix(hops.stack, hop_weights)).softmax(-1)
        sums, mass = reference.class_sums(hops.stack, probs), probs.sum(0).double().cpu().numpy()
        between = functional.between_form(sums, mass, mean, 1e-9)
        return functional.pic_from_forms(on_host, between, total)

    return one_round


def measure(
    nodes: int, width: int, hops: int, classes: int, device: str, bandwidth: float
) -> dict[str, object]:
    generator = torch.Generator(device).manual_seed(0)
    stack = torch.randn(nodes, hops + 1, width, device=device, generator=generator)
    head = torch.nn.Linear(width, classes, bias=False, device=device).requires_grad_(False)
    repeats, cached = repeats_for(nodes, device), Hops(stack)
    ours = best_seconds(sums_round(cached, head), repeats)
    row = {
        "nodes": nodes,
        "width": width,
        "hops": hops,
        "classes": classes,
        "ours_ms": 1e3 * ours,
        "read_ms": 1e3 * best_seconds(stack.sum, repeats),
        "twin_ms": 1e3 * best_seconds(reference_round(cached, head), max(3, repeats // 10)),
        "bound_ms": 1e3 * 4 * stack.numel() / bandwidth,
    }
    hop_major = stack.transpose(0, 1).contiguous()
    del stack, cached
    autograd = best_seconds(cached_autograd_round(head.weight, hop_major), max(3, repeats // 5))
    row |= {
        "autograd_ms": 1e3 * autograd,
        "times_the_read": row["ours_ms"] / row["read_ms"],
        "times_the_bound": row["ours_ms"] / row["bound_ms"],
        "faster_than_autograd": autograd / ours,
    }
    print(row, flush=True)
    return row


def measure_round(nodes: int, features: int, device: str, repeats: int) -> dict[str, object]:
    graph = mg.datasets.csbm(nodes, features, homophily=0.2, seed=1).to(device)
    model = mg.GPRGNN(features, 2, hidden_channels=32, K=9).frozen().to(device)
    inference = best_seconds(lambda: model(graph.x, graph.edge_index), repeats)
    cached = model.hops(mg.unlabelled(graph))

    def adapt(rounds: int) -> object:
        return mg.gamma.run(model, graph, strategy=mg.Matcha(lr=1e-3, rounds=rounds), hops=cached)

    none = best_seconds(lambda: mg.predict(model, graph, hops=cached), repeats)
    some = best_seconds(lambda: adapt(ROUNDS), repeats)
    ours = (some - none) / ROUNDS
    return {
        "nodes": nodes,
        "features": features,
        "inference_ms": 1e3 * inference,
        "round_ms": 1e3 * ours,
        "share_of_inference": ours / inference,
        "peak_memory_beside_the_stack": peak_memory(lambda: adapt(3), device)
        / (cached.stack.numel() * cached.stack.element_size()),
    }


def main() -> None:
    parser = arguments(__doc__)
    args = parser.parse_args()
    shapes = [
        shape
        for shape in (FULL if args.full else SHORT)
        if 4e-9 * shape[0] * shape[1] * (shape[2] + 1) <= args.max_gb
    ]
    rounds = [(5_000, 2_000, 60)] + [(1_000_000, 32, 2)] * (args.full and args.device == "cpu")
    bandwidth = copy_bandwidth(args.device)
    store(
        "round",
        args,
        {
            "shapes": [measure(*shape, args.device, bandwidth) for shape in shapes],
            "round": [measure_round(n, f, args.device, repeats) for n, f, repeats in rounds],
        },
    )


if __name__ == "__main__":
    main()
