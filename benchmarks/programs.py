"""Each GPU program beside plain PyTorch, in one run on one GPU: time of PyTorch / time of ours.

A program stays where PyTorch takes more than 1.3 times as long for graphs of 10⁴ to 10⁶ nodes.

Run: python benchmarks/programs.py results/bench/programs-nvidia-h200.json
"""

import json
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

import torch
from torch import nn

from matcha_gnn.io.provenance import versions
from matcha_gnn.kernels import Adjacency, gpu, reference, two_pass
from matcha_gnn.kernels.links import BeliefMessage, Links

NODES = (10_000, 100_000, 1_000_000)
WIDTHS, CLASSES, HOPS, DEGREE = (2, 16, 64), (2, 5, 40), 10, 10
Call = Callable[[], Any]


def milliseconds(call: Call) -> float:
    """Median over runs, the host's part included: the answers go there."""
    for _ in range(3):
        call()
    times = []
    for _ in range(15):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        start.record()
        call()
        stop.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(stop))
    return median(times)


def rounds(nodes: int, width: int, classes: int) -> Iterator[tuple[str, Call, Call]]:
    stack = torch.randn(nodes, HOPS, width, device="cuda")
    head = nn.Linear(width, classes, device="cuda").requires_grad_(False)
    hop_weights = torch.rand(HOPS, device="cuda")
    bias = (head.bias[:-1] - head.bias[-1]).contiguous()
    logits, sums = reference.hop_logits(stack, head.weight), reference.node_sums(stack)
    probs = torch.rand(nodes, classes, device="cuda")
    mean = sums / nodes
    yield (
        "Classifier",
        partial(gpu.Classifier(stack, logits, bias, sums), hop_weights),
        partial(reference.Classifier(stack, logits, bias, sums), hop_weights),
    )
    for name in ("class_sums", "mix", "gram"):
        argument = {"class_sums": probs, "mix": hop_weights, "gram": mean}.get(name)
        arguments = (stack,) if argument is None else (stack, argument)
        yield (
            name,
            partial(getattr(gpu, name), *arguments),
            partial(getattr(reference, name), *arguments),
        )
    if gpu.fits(stack, classes):
        along = two_pass.mixed_sums(stack, hop_weights, probs, reference.mix)
        yield (
            "classify",
            partial(gpu.classify, stack, hop_weights, head),
            partial(two_pass.classify, stack, hop_weights, head, reference.mix),
        )
        yield (
            "hop_slopes",
            partial(gpu.hop_slopes, stack, probs, along),
            partial(two_pass.hop_slopes, stack, probs, along, reference.hop_dots),
        )


def products(nodes: int, width: int, classes: int) -> Iterator[tuple[str, Call, Call]]:
    edges = torch.randint(0, nodes, (2, nodes * DEGREE), device="cuda")
    adjacency = Adjacency.normalised(edges, nodes, None, torch.float32)
    matrix = adjacency.matrix
    stack = torch.randn(nodes, HOPS, width, device="cuda")
    h, base = torch.randn(2, nodes, width, device="cuda")
    out = torch.empty_like(h)

    yield (
        "product",
        partial(gpu.product, matrix, stack[:, 0], stack[:, 1]),
        lambda: stack[:, 1].copy_(matrix @ h),
    )
    yield (
        "product, plus",
        partial(gpu.product, matrix, h, out, 0.1, base),
        partial(torch.addmm, base, matrix, h, beta=0.1),
    )
    if width == WIDTHS[0] and classes <= gpu.MAX_MESSAGE:
        links = Links.of(edges, nodes)
        message = BeliefMessage(torch.rand(classes, classes, device="cuda").double())
        sent, received = torch.randn(2, nodes, classes, device="cuda").double()
        yield (
            "message_sums",
            partial(gpu.message_sums, links.crow, links.sender, message.lift, sent, received),
            partial(links.plain_sums, message, sent, received),
        )


def main() -> None:
    rows = []
    for nodes in NODES:
        for width in WIDTHS:
            for classes in CLASSES:
                torch.manual_seed(0)
                for name, ours, plain in (
                    *rounds(nodes, width, classes),
                    *products(nodes, width, classes),
                ):
                    mine, theirs = milliseconds(ours), milliseconds(plain)
                    row = {
                        "program": name,
                        "nodes": nodes,
                        "width": width,
                        "classes": classes,
                        "ours_ms": round(mine, 4),
                        "torch_ms": round(theirs, 4),
                        "ratio": round(theirs / mine, 2),
                    }
                    rows.append(row)
                torch.cuda.empty_cache()
    for name in dict.fromkeys(row["program"] for row in rows):
        for nodes in NODES:
            of = [row["ratio"] for row in rows if row["program"] == name and row["nodes"] == nodes]
            if of:
                spread = f"({min(of):.2f} to {max(of):.2f})"
                print(f"{name:16} {nodes:9,}  {geometric_mean(of):6.2f}  {spread}")
    record = {"device": torch.cuda.get_device_name(), "versions": versions(), "rows": rows}
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
