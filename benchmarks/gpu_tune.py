"""Times of the GPU kernels for many classes over block sizes and warps, and of one recorded epoch.

Run: python benchmarks/gpu_tune.py
"""
# ruff: noqa

import torch
import triton
import triton.language as tl

from matcha_gnn.hops import Hops
from matcha_gnn.kernels import gpu
from matcha_gnn.kernels import gpu_programs as on_gpu


def milliseconds(work, repeats=20):
    work()
    torch.cuda.synchronize()
    best = 1e9
    for _ in range(repeats):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        work()
        stop.record()
        torch.cuda.synchronize()
        best = min(best, start.elapsed_time(stop))
    return best


def recorded_epoch():
    stack = torch.randn(1_000_000, 10, 32, device="cuda")
    head = torch.nn.Linear(32, 2, device="cuda").requires_grad_(False)
    hops, coef = Hops(stack), torch.rand(10, device="cuda")
    classifier = hops._classifier(head, hops)
    print("epoch eager, events", milliseconds(lambda: classifier(coef)), flush=True)
    last, num_nodes = 1, len(stack)
    probs = torch.empty(num_nodes, 2, device="cuda")
    mass = torch.empty(triton.cdiv(num_nodes, 512), 2, device="cuda")
    packed = torch.empty(320 + 2, dtype=torch.float64, pin_memory=True)

    def enqueue():
        on_gpu.softmax[(len(mass),)](
            classifier.logits, coef, classifier.bias, probs, mass, num_nodes,
            HOPS=10, LAST=last, CLASSES=2, BLOCK=512,
        )  # fmt: skip
        sums = gpu._weighted_sums(stack, probs, last)
        whole = torch.cat([sums.flatten(), mass.sum(0, dtype=torch.float64)])
        packed.copy_(whole, non_blocking=True)

    print("epoch enqueued", milliseconds(enqueue), flush=True)
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        enqueue()
        graph.capture_begin()
        enqueue()
        graph.capture_end()
    torch.cuda.current_stream().wait_stream(stream)
    print("epoch recorded", milliseconds(graph.replay), flush=True)
    graph.replay()
    torch.cuda.synchronize()
    found, expected = packed.numpy().copy(), classifier(coef)
    print("apart", abs(found[:320] - expected[1][0].ravel()).max(), found[320:], expected[2])
    for chunk, block in [(64, 32), (64, 64), (128, 32), (128, 16), (32, 64), (64, 128)]:
        chunks = triton.cdiv(320, chunk)
        for warps in (4, 8):
            for full in (1056, 2112, 4224):
                ranges = full // chunks
                partial = torch.empty(ranges, 1, 320, device="cuda")
                ms = milliseconds(
                    lambda: on_gpu.class_sums[(ranges, chunks, 1)](
                        stack, probs, partial, num_nodes, 320, 2, 1, triton.cdiv(num_nodes, ranges),
                        CLASSES=1, CHUNK=chunk, BLOCK=block, num_warps=warps,
                    ), 10)  # fmt: skip
                print("class_sums", chunk, block, warps, full, f"{ms:.3f}", flush=True)


@triton.jit
def slopes_at_once(
    stack, probs, along, partial, num_nodes, num_hops: tl.constexpr, width, num_classes,
    HOPS: tl.constexpr, CLASSES: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    share = tl.cdiv(num_nodes, tl.num_programs(0)).to(tl.int64)
    start = tl.program_id(0) * share
    stop = tl.minimum(start + share, num_nodes)
    columns, classes, hops = tl.arange(0, WIDTH), tl.arange(0, CLASSES), tl.arange(0, HOPS)
    wide, real = columns < width, classes < num_classes
    means = tl.load(
        along + classes[:, None] * width + columns[None, :], real[:, None] & wide[None, :], 0.0
    )
    products = tl.zeros((HOPS, BLOCK, WIDTH), tl.float32)
    inner = hops[:, None, None] * width + columns[None, None, :]
    known = (hops < num_hops)[:, None, None] & wide[None, None, :]
    for first in range(start, stop, BLOCK):
        rows = first + tl.arange(0, BLOCK)
        inside = rows < stop
        at = probs + rows[:, None] * num_classes + classes[None, :]
        shares = tl.load(at, inside[:, None] & real[None, :], 0.0)
        hop = tl.load(
            stack + rows[None, :, None] * (num_hops * width) + inner,
            known & inside[None, :, None],
            0.0,
        )
        slope = tl.dot(shares, means, input_precision="tf32x3")
        products += slope[None, :, :] * hop.to(tl.float32)
    dots = tl.sum(tl.sum(products, 2), 1)
    tl.store(partial + tl.program_id(0) * num_hops + hops, dots, hops < num_hops)


def many_classes():
    nodes, num_hops, width, classes = 1_000_000, 6, 128, 40
    stack = torch.randn(nodes, num_hops, width, device="cuda")
    weight, bias = torch.randn(classes, width, device="cuda"), torch.zeros(classes, device="cuda")
    coef, probs = torch.rand(num_hops, device="cuda"), torch.empty(nodes, classes, device="cuda")
    z, along = gpu.mix(stack, coef), torch.randn(classes, width, device="cuda")
    print("mix", milliseconds(lambda: gpu.mix(stack, coef)))
    print("head", milliseconds(lambda: torch.addmm(bias, z, weight.T)))
    logits = z @ weight.T
    print("softmax", milliseconds(lambda: logits.softmax(1)))
    shares = logits.softmax(1)
    print(
        "sums", milliseconds(lambda: shares.T @ z), "slopes", milliseconds(lambda: shares @ along)
    )
    for block, warps, programs in [
        (16, 4, 1056), (16, 8, 1056), (32, 4, 1056), (32, 8, 528), (32, 8, 1056), (32, 8, 2112),
        (64, 4, 528), (64, 8, 528), (64, 8, 1056), (128, 8, 528),
    ]:  # fmt: skip
        partial = torch.empty(programs, 64, width + 1, device="cuda")
        try:
            ms = milliseconds(
                lambda: on_gpu.classify_mixed[(programs,)](
                    stack, coef, weight, bias, probs, partial, nodes, num_hops, width, classes,
                    CLASSES=64, WIDTH=128, BLOCK=block, num_warps=warps,
                ), 10)  # fmt: skip
            print("classify_mixed", block, warps, programs, f"{ms:.3f}", flush=True)
        except Exception as error:
            print("classify_mixed", block, warps, programs, type(error).__name__, flush=True)
    for block, warps, programs in [
        (16, 4, 1056), (32, 4, 1056), (32, 8, 1056), (64, 4, 1056), (64, 8, 1056), (64, 4, 2112),
        (64, 4, 528), (128, 8, 1056), (128, 8, 528),
    ]:  # fmt: skip
        partial = torch.empty(programs, num_hops, device="cuda")
        try:
            ms = milliseconds(
                lambda: on_gpu.hop_slopes[(programs,)](
                    stack, shares, along, partial, nodes, num_hops, width, classes,
                    HOPS=8, CLASSES=64, WIDTH=128, BLOCK=block, num_warps=warps,
                ), 10)  # fmt: skip
            print("hop_slopes", block, warps, programs, f"{ms:.3f}", flush=True)
        except Exception as error:
            print("hop_slopes", block, warps, programs, type(error).__name__, flush=True)
    expected = torch.einsum(
        "nd,nkd->k", (shares @ along).double()[:100_000], stack.double()[:100_000]
    )
    for block, warps, programs in [
        (16, 4, 1056),
        (16, 8, 1056),
        (16, 8, 528),
        (16, 16, 528),
        (32, 8, 528),
    ]:
        partial = torch.empty(programs, num_hops, device="cuda")
        try:

            def work(count=nodes):
                slopes_at_once[(programs,)](
                    stack,
                    shares,
                    along,
                    partial,
                    count,
                    num_hops,
                    width,
                    classes,
                    HOPS=8,
                    CLASSES=64,
                    WIDTH=128,
                    BLOCK=block,
                    num_warps=warps,
                )

            ms = milliseconds(work, 10)
            work(100_000)
            apart = float(
                (partial.sum(0, dtype=torch.float64) - expected).abs().max() / expected.abs().max()
            )
            print("slopes_at_once", block, warps, programs, f"{ms:.3f}", apart, flush=True)
        except Exception as error:
            print("slopes_at_once", block, warps, programs, type(error).__name__, flush=True)


if __name__ == "__main__":
    recorded_epoch()
    many_classes()
