"""The same kernels for a GPU, in Triton: one read of the stack, no atomics, 64-bit offsets.

Every program takes a range of nodes and writes its own partial sums, in float32; these are added up
in float64 in a fixed order. Hops may be stored in half precision: they are converted when read.
The programs read tensors whose numbers lie in order; others are copied first.
"""

from collections.abc import Callable

import numpy as np
import torch
import triton
from torch import Tensor, nn

from matcha_gnn.kernels import gpu_programs as on_gpu
from matcha_gnn.typing import ClassSums, FloatArray, HopForm, HopStack, HopWeights, Probs, Repr

MAX_HOPS, MAX_WIDTH, MAX_CLASSES = 16, 128, 64
"""All hops of a few nodes and the directions of all classes must fit a processor's memory."""
MAX_MESSAGE = 16
"""Classes whose products with the lift of all pairs fit a program's registers."""
_PROGRAMS = 1056
"""Programs of eight warps that run at once on a GPU of 132 processors."""
_SMALLEST_DOT = 16
_TILE = 64
"""Columns of the flat hops whose class sums one program takes."""
_ADDED = 16
"""Columns of partial sums that one program adds up."""


def fits(stack: HopStack, num_classes: int) -> bool:
    """Whether `classify` and `hop_slopes` have room for them."""
    fits_stack = stack.shape[1] <= MAX_HOPS and stack.shape[2] <= MAX_WIDTH
    return fits_stack and num_classes <= MAX_CLASSES


class Classifier:
    """See `reference.Classifier`.

    The kernel launches of a round are recorded once as a CUDA graph and replayed: one by one, they
    would take as long as a read of a million nodes.
    """

    def __init__(
        self, stack: HopStack, logits: Tensor, bias: Tensor, node_sums: FloatArray
    ) -> None:
        self.stack, self.logits = stack.contiguous(), logits.contiguous()
        self.bias, self.node_sums = bias.contiguous(), node_sums
        num_hops, self.last, num_nodes = logits.shape
        self.block = max(32, 1024 // _padded(self.last + 1))
        self.hop_weights = logits.new_empty(num_hops)
        self.probs = logits.new_empty(num_nodes, self.last + 1)
        self.mass = logits.new_empty(triton.cdiv(num_nodes, self.block), self.last + 1)
        size = self.last * stack[0].numel() + self.last + 1
        self.packed = torch.empty(size, dtype=torch.float64, pin_memory=stack.is_cuda)
        self.start = _recorded(self._start) if stack.is_cuda else self._start

    def __call__(self, hop_weights: HopWeights) -> tuple[Probs, ClassSums, FloatArray]:
        """Predictions, class sums and mass, in one read."""
        self.hop_weights.copy_(hop_weights)
        self.start()
        if self.stack.is_cuda:
            sums_there = torch.cuda.current_stream().record_event()
            probs = self.probs.clone()  # while the host goes on with the sums
            sums_there.synchronize()
        else:
            probs = self.probs.clone()
        packed = self.packed.numpy()
        total = np.empty((self.last + 1, *self.stack.shape[1:]))
        total[:-1] = packed[: -self.last - 1].reshape(self.last, *self.stack.shape[1:])
        np.subtract(self.node_sums, total[:-1].sum(0), out=total[-1])
        return probs, total, packed[-self.last - 1 :].copy()

    def _start(self) -> None:
        num_hops, last, num_nodes = self.logits.shape
        on_gpu.softmax[(len(self.mass),)](
            self.logits, self.hop_weights, self.bias, self.probs, self.mass, num_nodes,
            HOPS=num_hops, LAST=last, CLASSES=_padded(last + 1), BLOCK=self.block,
        )  # fmt: skip
        partial = _partial_sums(self.stack, self.probs, last)
        ranges, _, size = partial.shape
        on_gpu.add_up[(triton.cdiv(size, _ADDED) + 1, last + 1)](
            partial, self.mass, self.packed, ranges, len(self.mass), size, last,
            TILE=_ADDED, BLOCK=2048 // _ADDED,
        )  # fmt: skip


def _recorded(work: Callable[[], None]) -> Callable[[], None]:
    """Several kernel launches as one; they must write to the same addresses every time."""
    stream: torch.cuda.Stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    graph = torch.cuda.CUDAGraph()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        work()  # compiles what is not compiled yet
        graph.capture_begin(capture_error_mode="thread_local")
        work()
        graph.capture_end()
    torch.cuda.current_stream().wait_stream(stream)
    return graph.replay


def mix(stack: HopStack, hop_weights: HopWeights) -> Repr:
    """See `reference.mix`."""
    stack = stack.contiguous()
    num_nodes, num_hops, width = stack.shape
    z = torch.empty(num_nodes, width, device=stack.device)
    block = max(1, min(32, 1024 // _padded(width)))
    on_gpu.mix[(triton.cdiv(num_nodes, block),)](
        stack, hop_weights.to(z), z, num_nodes, num_hops, width, WIDTH=_padded(width), BLOCK=block
    )
    return z


def class_sums(stack: HopStack, weights: Tensor) -> ClassSums:
    """See `reference.class_sums`."""
    weights = weights.float().contiguous()
    partial = _partial_sums(stack.contiguous(), weights, weights.shape[1])
    sums = partial.sum(0, dtype=torch.float64)
    return np.asarray(sums.view(-1, *stack.shape[1:]).cpu())


def gram(stack: HopStack, mean: FloatArray) -> HopForm:
    """See `reference.gram`."""
    stack = stack.contiguous()
    num_nodes, num_hops, width = stack.shape
    size, programs = max(_SMALLEST_DOT, _padded(num_hops)), min(_PROGRAMS, num_nodes)
    partial = torch.empty(programs, size, size, device=stack.device)
    centre = torch.from_numpy(mean).to(partial)
    on_gpu.gram[(programs,)](
        stack, centre, partial, num_nodes, num_hops, width, HOPS=size, BLOCK=128
    )
    form = partial.sum(0, dtype=torch.float64)[:num_hops, :num_hops]
    return np.asarray(form.cpu())


def classify(
    stack: HopStack, hop_weights: HopWeights, head: nn.Linear
) -> tuple[Probs, FloatArray, FloatArray]:
    """See `two_pass.classify`; for stacks that fit."""
    stack = stack.contiguous()
    num_nodes, num_hops, width = stack.shape
    classes, place = head.out_features, stack.device
    bias = torch.zeros(classes, device=place) if head.bias is None else head.bias.detach()
    probs = torch.empty(num_nodes, classes, device=place)
    columns = max(_SMALLEST_DOT, _padded(width))
    rows = 32 if columns <= 64 else _SMALLEST_DOT
    programs = min(_PROGRAMS // 2, triton.cdiv(num_nodes, rows))
    sums = torch.empty(programs, classes, width, device=place)
    mass = torch.empty(programs, classes, device=place)
    on_gpu.classify[(programs,)](
        stack, hop_weights.to(probs), head.weight.detach().contiguous(), bias, probs, sums, mass,
        num_nodes, num_hops, width, classes, CLASSES=max(_SMALLEST_DOT, _padded(classes)),
        WIDTH=columns, BLOCK=rows, num_warps=4, num_stages=1,
    )  # fmt: skip
    packed = torch.cat([each.sum(0, dtype=torch.float64).flatten() for each in (sums, mass)])
    on_host = np.asarray(packed.cpu())
    return probs, on_host[:-classes].reshape(classes, width), on_host[-classes:]


def hop_slopes(stack: HopStack, probs: Probs, directions: FloatArray) -> FloatArray:
    """See `two_pass.hop_slopes`; for stacks that fit."""
    stack, probs = stack.contiguous(), probs.contiguous()
    num_nodes, num_hops, width = stack.shape
    classes, hops = len(directions), _padded(num_hops)
    columns, rows = max(_SMALLEST_DOT, _padded(width)), _SMALLEST_DOT
    programs = min(_PROGRAMS // 2, triton.cdiv(num_nodes, rows))
    partial = torch.empty(programs, num_hops, device=stack.device)
    along = torch.from_numpy(directions).to(partial)
    on_gpu.hop_slopes[(programs,)](
        stack, probs, along, partial, num_nodes, num_hops, width, classes,
        HOPS=hops, CLASSES=max(_SMALLEST_DOT, _padded(classes)), WIDTH=columns, BLOCK=rows,
        num_warps=max(4, min(16, hops * rows * columns // 2048)),
    )  # fmt: skip
    return np.asarray(partial.sum(0, dtype=torch.float64).cpu())


def product(
    matrix: Tensor, h: Repr, out: Repr, share: float = 0.0, base: Repr | None = None
) -> None:
    """Write P h into `out`, plus share · base if given.

    Args:
        matrix: P, CSR, [N, N].
        h: [N, D]; its rows, and those of the next, may lie apart.
        out: [N, D].
        share: a number.
        base: [N, D].
    """
    num_nodes, width = out.shape
    h, plus = _with_rows(h), _with_rows(h if base is None else base)
    block = _rows_for(width)
    on_gpu.product[(triton.cdiv(num_nodes, block),)](
        matrix.crow_indices(), matrix.col_indices(), matrix.values(), h, float(share), plus, out,
        num_nodes, width, h.stride(0), plus.stride(0), out.stride(0),
        PLUS=base is not None, WIDTH=_padded(width), BLOCK=block,
    )  # fmt: skip


def message_sums(
    crow: Tensor, sender: Tensor, lift: Tensor, sent: Tensor, received: Tensor
) -> Tensor:
    """See `links.Links.message_sums`, for belief messages of at most `MAX_MESSAGE` classes.

    Args:
        crow: where the edges of each receiver start, [N+1].
        sender: [E'].
        lift: [C, C].
        sent: log-probabilities of those that can send, [N', C].
        received: what the receivers told before, [N, C].
    """
    num_nodes, classes = received.shape
    width = max(2, _padded(classes))
    block = max(4, min(64, 2048 // width**2))
    sums = torch.empty_like(received, memory_format=torch.contiguous_format)
    on_gpu.message_sums[(triton.cdiv(num_nodes, block),)](
        crow, sender, lift.contiguous(), sent.contiguous(), received.contiguous(), sums,
        num_nodes, classes, CLASSES=width, BLOCK=block,
    )  # fmt: skip
    return sums


def _with_rows(h: Repr) -> Repr:
    """With the numbers of a row side by side."""
    return h if h.stride(1) == 1 else h.contiguous()


def _rows_for(width: int) -> int:
    """Rows of a tile that fits a program's registers."""
    return max(1, min(32, 4096 // _padded(width)))


def _padded(size: int) -> int:
    return int(triton.next_power_of_2(size))


def _partial_sums(stack: HopStack, weights: Tensor, count: int) -> Tensor:
    """Σ_i weights[i, c] · H_k[i] over ranges of nodes, for the first `count` columns.

    Returns:
        [ranges, count, (K+1)·D].
    """
    num_nodes, size = len(stack), stack[0].numel()
    groups, tiles = triton.cdiv(count, MAX_CLASSES), triton.cdiv(size, _TILE)
    programs = _PROGRAMS if count == 1 else 2 * _PROGRAMS
    ranges = max(1, min(triton.cdiv(num_nodes, 64), programs // (tiles * groups)))
    share, stride = triton.cdiv(num_nodes, ranges), weights.shape[1]
    partial = torch.empty(ranges, count, size, device=stack.device)
    if count == 1:
        on_gpu.weighted_sum[(ranges, tiles)](
            stack, weights, partial, num_nodes, size, stride, share,
            TILE=_TILE, BLOCK=32, num_warps=8,
        )  # fmt: skip
        return partial
    classes, rest = _class_tiles(triton.cdiv(count, groups))
    on_gpu.class_sums[(ranges, tiles, groups)](
        stack, weights, partial, num_nodes, size, stride, count, share,
        CLASSES=classes, REST=rest, TILE=_TILE, BLOCK=64 if classes + rest <= 32 else 32,
        num_warps=4,
    )  # fmt: skip
    return partial


def _class_tiles(count: int) -> tuple[int, int]:
    """Two powers of two whose sum is at least `count`; the second may be zero."""
    return (32, 16) if 32 < count <= 48 else (max(_SMALLEST_DOT, _padded(count)), 0)
