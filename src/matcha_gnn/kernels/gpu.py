"""The same kernels for a GPU, in Triton: one read of the stack, no atomics, 64-bit offsets.

Every program takes a range of nodes and leaves its own partial sums, in float32; these are added up
in float64 in a fixed order. Hops may be stored in half precision: they are widened on arrival.
"""

import numpy as np
import torch
import triton
from torch import Tensor, nn

from matcha_gnn.kernels import gpu_programs as on_gpu
from matcha_gnn.typing import ClassSums, Coefficients, FloatArray, HopForm, HopStack, Probs, Repr

MAX_WIDTH, MAX_CLASSES = 256, 128
"""A tile of representations and a tile of predictions must fit a program's registers."""
_PROGRAMS = 1056
_FULL = 2112
"""Programs of four warps that run at once on a GPU of 132 processors."""
_SMALLEST_DOT = 16


def fits(stack: HopStack, num_classes: int) -> bool:
    """Whether the kernels of the two passes have room for tiles of this width."""
    return stack.shape[2] <= MAX_WIDTH and num_classes <= MAX_CLASSES


class Classifier:
    """Twin of `reference.Classifier` on a GPU."""

    def __init__(
        self, stack: HopStack, logits: Tensor, bias: Tensor, node_sums: FloatArray
    ) -> None:
        self.stack, self.logits, self.bias, self.node_sums = stack, logits, bias, node_sums

    def __call__(self, coef: Coefficients) -> tuple[Probs, ClassSums, FloatArray]:
        """Predictions, class sums and mass, in one read."""
        num_hops, last, num_nodes = self.logits.shape
        probs = self.logits.new_empty(num_nodes, last + 1)
        block = max(32, 1024 // _padded(last + 1))
        blocks = triton.cdiv(num_nodes, block)
        mass = self.logits.new_empty(blocks, last + 1)
        on_gpu.softmax[(blocks,)](
            self.logits, coef.to(self.logits), self.bias, probs, mass, num_nodes,
            HOPS=num_hops, LAST=last, CLASSES=_padded(last + 1), BLOCK=block,
        )  # fmt: skip
        sums = _weighted_sums(self.stack, probs, last)
        packed = torch.cat([sums.flatten(), mass.sum(0, dtype=torch.float64)]).cpu().numpy()
        first = packed[: sums.numel()].reshape(last, *self.stack.shape[1:])
        total = np.concatenate([first, (self.node_sums - first.sum(0))[None]])
        return probs, total, packed[sums.numel() :]


def mix(stack: HopStack, coef: Coefficients) -> Repr:
    """Twin of `reference.mix` on a GPU."""
    num_nodes, num_hops, width = stack.shape
    z, block = torch.empty(num_nodes, width, device=stack.device), _rows_for(width)
    on_gpu.mix[(triton.cdiv(num_nodes, block),)](
        stack, coef.to(z), z, num_nodes, num_hops, width, WIDTH=_padded(width), BLOCK=block
    )
    return z


def class_sums(stack: HopStack, weights: Tensor) -> ClassSums:
    """Twin of `reference.class_sums` on a GPU."""
    sums = _weighted_sums(stack, weights.float().contiguous(), weights.shape[1])
    return np.asarray(sums.view(-1, *stack.shape[1:]).cpu())


def node_sums(stack: HopStack) -> FloatArray:
    """Twin of `reference.node_sums` on a GPU."""
    sums: FloatArray = class_sums(stack, torch.ones(len(stack), 1, device=stack.device))[0]
    return sums


def gram(stack: HopStack, mean: FloatArray) -> HopForm:
    """Twin of `reference.gram` on a GPU."""
    num_nodes, num_hops, width = stack.shape
    size, programs = max(_SMALLEST_DOT, _padded(num_hops)), min(_PROGRAMS, num_nodes)
    partial = torch.empty(programs, size, size, device=stack.device)
    centre = torch.from_numpy(mean).to(partial)
    on_gpu.gram[(programs,)](
        stack, centre, partial, num_nodes, num_hops, width, HOPS=size, BLOCK=128
    )
    form = partial.sum(0, dtype=torch.float64)[:num_hops, :num_hops]
    return np.asarray(form.cpu())


def classify_mixed(
    stack: HopStack, coef: Coefficients, head: nn.Linear
) -> tuple[Probs, FloatArray, FloatArray]:
    """Twin of `two_pass.classify` on a GPU, for stacks that fit."""
    num_nodes, num_hops, width = stack.shape
    weight = head.weight.detach().contiguous()
    bias = weight.new_zeros(len(weight)) if head.bias is None else head.bias.detach()
    classes = len(weight)
    padded, programs = max(_SMALLEST_DOT, _padded(classes)), min(_PROGRAMS, num_nodes)
    probs = torch.empty(num_nodes, classes, device=stack.device)
    partial = torch.empty(programs, padded, width + 1, device=stack.device)
    on_gpu.classify_mixed[(programs,)](
        stack, coef.to(probs), weight, bias, probs, partial, num_nodes, num_hops, width, classes,
        CLASSES=padded, WIDTH=max(_SMALLEST_DOT, _padded(width)), BLOCK=32, num_warps=8,
    )  # fmt: skip
    sums = partial.sum(0, dtype=torch.float64)[:classes].cpu().numpy()
    return probs, sums[:, :-1], sums[:, -1]


def hop_slopes(stack: HopStack, probs: Probs, directions: FloatArray) -> FloatArray:
    """Twin of `two_pass.hop_slopes` on a GPU, for stacks that fit."""
    num_nodes, num_hops, width = stack.shape
    classes = len(directions)
    programs = min(_PROGRAMS, num_nodes)
    partial = torch.empty(programs, num_hops, device=stack.device)
    along = torch.from_numpy(directions).to(partial)
    on_gpu.hop_slopes[(programs,)](
        stack, probs, along, partial, num_nodes, num_hops, width, classes,
        HOPS=_padded(num_hops), CLASSES=max(_SMALLEST_DOT, _padded(classes)),
        WIDTH=max(_SMALLEST_DOT, _padded(width)), BLOCK=64, num_warps=4,
    )  # fmt: skip
    return np.asarray(partial.sum(0, dtype=torch.float64).cpu())


def next_hop(matrix: Tensor, stack: HopStack, hop: int) -> None:
    """Write P · H_hop−1 into hop `hop` of the stack, for a CSR matrix."""
    num_nodes, num_hops, width = stack.shape
    block = _rows_for(width)
    on_gpu.next_hop[(triton.cdiv(num_nodes, block),)](
        matrix.crow_indices(), matrix.col_indices(), matrix.values(), stack, num_nodes,
        num_hops * width, hop * width, width, WIDTH=_padded(width), BLOCK=block,
    )  # fmt: skip


def _rows_for(width: int) -> int:
    """Rows of a tile that fits a program's registers."""
    return max(1, min(32, 4096 // _padded(width)))


def _padded(size: int) -> int:
    return int(triton.next_power_of_2(size))


def _weighted_sums(stack: HopStack, weights: Tensor, count: int) -> Tensor:
    """Σ_i weights[i, c] · H_k[i] for the first `count` columns, [count, (K+1)·D], float64."""
    num_nodes, size = len(stack), stack[0].numel()
    chunk, classes = 64, 1 if count == 1 else min(64, max(_SMALLEST_DOT, _padded(count)))
    chunks, groups = triton.cdiv(size, chunk), triton.cdiv(count, classes)
    ranges = max(1, min(triton.cdiv(num_nodes, 64), _FULL // (chunks * groups)))
    partial = torch.empty(ranges, count, size, device=stack.device)
    on_gpu.class_sums[(ranges, chunks, groups)](
        stack, weights, partial, num_nodes, size, weights.shape[1], count,
        triton.cdiv(num_nodes, ranges),
        CLASSES=classes, CHUNK=chunk, BLOCK=32 if classes == 1 else 64,
    )  # fmt: skip
    return partial.sum(0, dtype=torch.float64)
