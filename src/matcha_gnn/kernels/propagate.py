"""Sparse products with the normalised adjacency, and the gradient of the polynomial filter."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable
from torch.nn.functional import embedding_bag

from matcha_gnn.kernels.devices import fast_code
from matcha_gnn.kernels.fallback import or_plain
from matcha_gnn.kernels.normalising import normalised_csr, transposed_csr
from matcha_gnn.kernels.sparse import csr_of, row_blocks
from matcha_gnn.typing import HopStack, HopWeights, Repr

MAX_DEGREE = 4096
"""Fast code sums rows in parallel, and all wait for the longest."""
_BLOCK = 1 << 19
"""Numbers of a product (2 MB) that are computed at a time on the CPU: torch takes new memory from
the system for every larger result, and the first write to it costs more than the sums."""


@dataclass(frozen=True)
class Adjacency:
    """P = D^-1/2 (A + I) D^-1/2 as a sparse CSR tensor, row i gathering what node i receives.

    Degrees count incoming weight, and a node that has a self loop keeps it: the convention of
    PyG's `gcn_norm`. Parallel edges add up.
    """

    matrix: Tensor
    _cast: dict[torch.dtype, "Adjacency"] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def normalised(
        cls, edge_index: Tensor, num_nodes: int, edge_weight: Tensor | None, dtype: torch.dtype
    ) -> "Adjacency":
        """Build from edges [2, E] (row 0 sends, row 1 receives) and weights [E] or ones.

        Example:
            >>> edges = torch.tensor([[0, 1], [1, 0]])
            >>> Adjacency.normalised(edges, 2, None, torch.float32).matrix.to_dense()
            tensor([[0.5000, 0.5000],
                    [0.5000, 0.5000]])
        """
        return cls(normalised_csr(edge_index, num_nodes, edge_weight, dtype))

    @cached_property
    def transposed(self) -> "Adjacency":
        """Pᵀ; the same numbers when the graph is undirected."""
        return Adjacency(transposed_csr(self.matrix))

    def to(self, dtype: torch.dtype) -> "Adjacency":
        """The same matrix in another precision; converted once."""
        if dtype == self.matrix.dtype:
            return self
        if dtype not in self._cast:
            m = self.matrix
            # Built from its parts: a conversion would check them where a user has torch check.
            parts = m.crow_indices(), m.col_indices(), m.values().to(dtype)
            self._cast[dtype] = Adjacency(csr_of(*parts, (m.shape[0], m.shape[1])))
        return self._cast[dtype]

    def __matmul__(self, h: Repr) -> Repr:
        """P h, one hop, in the precision of h."""
        same = self.to(h.dtype)
        if sums_of_rows_pay(h):
            return sums_of_rows(*same.rows, h)
        product: Repr = same.narrow @ h
        return product

    def plus(self, h: Repr, share: float, base: Repr, out: Repr | None = None) -> Repr:
        """P h + share · base, for h and base [N, D]: a step of Horner's rule."""
        if sums_of_rows_pay(h):
            found = empty(base.shape, base) if out is None else out
            for rows, bags in self.row_blocks(h.shape[1]):
                torch.add(sums_of_rows(*bags, h), base[rows].detach(), alpha=share, out=found[rows])
            return found
        if fast := _fast_product(self, h):
            sums = empty(base.shape, base) if out is None else out
            fast(self.matrix, h, sums, share, base)
            return sums
        return torch.addmm(base, self.narrow, h, beta=share)

    def row_blocks(
        self, width: int, stride: int = 1
    ) -> Iterator[tuple[slice, tuple[Tensor, Tensor, Tensor]]]:
        """Rows whose sums of `width` numbers stay in the cache, and their part of `rows`.

        Args:
            width: D.
            stride: rows of what is multiplied that lie between those of two nodes.
        """
        crow, col, values = self.rows
        col = col * stride if stride > 1 else col
        for rows, entries, starts in row_blocks(crow, max(1, _BLOCK // width)):
            yield rows, (starts, col[entries], values[entries])

    @cached_property
    def max_degree(self) -> int:
        """Entries of the longest row."""
        return int(self.matrix.crow_indices().diff().max())

    @cached_property
    def narrow(self) -> Tensor:
        """On the CPU with 32-bit positions: torch would convert others in every product."""
        crow, col = self.matrix.crow_indices(), self.matrix.col_indices()
        numbered = len(col) <= torch.iinfo(torch.int32).max
        if not self.matrix.is_cpu or crow.dtype == torch.int32 or not numbered:
            return self.matrix
        rows, columns = self.matrix.shape
        return csr_of(crow.int(), col.int(), self.matrix.values(), (rows, columns))

    @cached_property
    def rows(self) -> tuple[Tensor, Tensor, Tensor]:
        """Row starts, columns and values."""
        matrix = self.narrow
        return matrix.crow_indices(), matrix.col_indices(), matrix.values()


def propagate(adjacency: Adjacency, h: Repr, num_hops: int) -> HopStack:
    """Stack h, P h, …, P^K h node-major, so that a node's hops lie side by side: [N, K+1, D]."""
    adjacency = adjacency.to(h.dtype)
    stack = empty((h.shape[0], num_hops + 1, h.shape[1]), h)
    stack[:, 0] = h
    _fastest_hops(adjacency, h)(adjacency, h, stack)
    return stack


def empty(shape: Sequence[int], like: Tensor) -> Tensor:
    """Memory for results, in the precision and place of another tensor.

    NumPy requests huge pages, torch does not: the first write to a large stack is several times
    faster, and so is access to rows that are far apart.
    """
    if like.is_cpu and like.dtype in (torch.float32, torch.float64):
        return torch.from_numpy(np.empty(tuple(shape), str(like.dtype).removeprefix("torch.")))
    return torch.empty(shape, dtype=like.dtype, device=like.device)


def _fastest_hops(adjacency: Adjacency, h: Repr) -> Callable[[Any, Repr, HopStack], None]:
    if h.requires_grad:
        return _plain_hops
    if sums_of_rows_pay(h):
        return _blocked_hops
    product = _fast_product(adjacency, h)
    if product is None:
        return _plain_hops

    def hops(adjacency: Adjacency, h: Repr, stack: HopStack) -> None:
        for k in range(1, stack.shape[1]):
            product(adjacency.matrix, stack[:, k - 1], stack[:, k])

    return hops


def _fast_product(adjacency: Adjacency, h: Repr) -> Callable[..., None] | None:
    """The kernel for products on the device of h, where it takes this one."""
    differentiated = h.requires_grad and torch.is_grad_enabled()
    takes = not differentiated and h.dtype == torch.float32 and h.dim() == 2 and h.numel() > 0
    fast = getattr(fast_code(h), "product", None) if takes else None
    if fast is None or adjacency.max_degree > MAX_DEGREE:
        return None
    return or_plain(fast, _plain_product)


def _plain_product(
    matrix: Tensor, h: Repr, out: Repr, share: float = 0.0, base: Repr | None = None
) -> None:
    """Write P h, plus share · base if given, into `out`."""
    out.copy_(matrix @ h if base is None else torch.addmm(base, matrix, h, beta=share))


def _blocked_hops(adjacency: Adjacency, h: Repr, stack: HopStack) -> None:
    """Neighbours are read from the stack: a hop is written once, and by rows that are in cache."""
    _, num_hops, width = stack.shape
    if len(stack) * num_hops > torch.iinfo(torch.int32).max:
        return _plain_hops(adjacency, h, stack)
    flat, blocks = stack.flatten(0, 1), list(adjacency.row_blocks(width, num_hops))
    for k in range(1, num_hops):
        for rows, bags in blocks:
            stack[rows, k] = sums_of_rows(*bags, flat[k - 1 :])
    return None


def _plain_hops(adjacency: Adjacency, h: Repr, stack: HopStack) -> None:
    for k in range(1, stack.shape[1]):
        h = adjacency @ h
        stack[:, k] = h


def sums_of_rows_pay(h: Repr) -> bool:
    """Whether `sums_of_rows` takes a product with h: it is faster for float32 on the CPU.

    Its derivative is not, so that autograd gets the sparse product.
    """
    differentiated = h.requires_grad and torch.is_grad_enabled()
    return h.is_cpu and h.dtype == torch.float32 and h.dim() == 2 and not differentiated


def sums_of_rows(crow: Tensor, col: Tensor, values: Tensor, h: Repr) -> Repr:
    """A sparse matrix in CSR form times h [N, D], as torch sums bags of embeddings.

    It prefetches rows of h, and waiting for these is what takes the time beyond the cache.
    """
    given, weights = h.detach().contiguous(), values.detach()
    return embedding_bag(
        col, given, crow, mode="sum", per_sample_weights=weights, include_last_offset=True
    )


def filter_hops(adjacency: Adjacency, h: Repr, hop_weights: HopWeights) -> Repr:
    """Σ_k c_k P^k h, differentiable in h and c, for training."""
    adjacency = adjacency.to(h.dtype)
    if not torch.is_grad_enabled() or not (h.requires_grad or hop_weights.requires_grad):
        return nested(adjacency, h, hop_weights.tolist())
    result: Repr = _PolynomialFilter.apply(h, hop_weights, adjacency)  # type: ignore[no-untyped-call]
    return result


def nested(matrix: Adjacency, h: Repr, hop_weights: list[float]) -> Repr:
    """Σ_k c_k M^k h by Horner's rule: two arrays of the size of h, however many hops."""
    mixed, spare = h * hop_weights[-1], None
    for share in reversed(hop_weights[:-1]):
        mixed, spare = matrix.plus(mixed, share, h, out=spare), mixed
    return mixed


class _PolynomialFilter(torch.autograd.Function):
    """Keeps the K hops of the forward pass, and needs K products with Pᵀ backward (Horner).

    The hops are kept without their history, so a second derivative is refused, not wrong.
    """

    @staticmethod
    def forward(ctx: FunctionCtx, h: Tensor, hop_weights: Tensor, adjacency: Adjacency) -> Tensor:
        hops = [h]
        for _ in range(hop_weights.numel() - 1):
            hops.append(adjacency @ hops[-1])
        ctx.save_for_backward(hop_weights, *hops)
        ctx.adjacency = adjacency  # type: ignore[attr-defined]
        mixed = hops[0] * hop_weights[0]
        for weight, hop in zip(hop_weights[1:], hops[1:], strict=True):
            mixed.addcmul_(hop, weight)
        return mixed

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, *gradients: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        (g,) = gradients
        hop_weights, *hops = ctx.saved_tensors  # type: ignore[attr-defined]
        transpose = ctx.adjacency.transposed  # type: ignore[attr-defined]
        hop_weight_gradient = torch.stack([(g * hop).sum() for hop in hops])
        g = g.contiguous()
        h_gradient = nested(transpose, g, hop_weights.tolist())
        return h_gradient, hop_weight_gradient, None


def one_hop(adjacency: Adjacency, h: Repr) -> Repr:
    """P h, differentiable in h, for models with something between two hops.

    Example:
        >>> pair = Adjacency.normalised(torch.tensor([[0, 1], [1, 0]]), 2, None, torch.float32)
        >>> one_hop(pair, torch.tensor([[1.0], [0.0]]))
        tensor([[0.5000],
                [0.5000]])
    """
    product: Repr = _Product.apply(h, adjacency.to(h.dtype))  # type: ignore[no-untyped-call]
    return product


class _Product(torch.autograd.Function):
    """One product each way; the transpose is made once for an adjacency."""

    @staticmethod
    def forward(ctx: FunctionCtx, h: Tensor, adjacency: Adjacency) -> Tensor:
        ctx.adjacency = adjacency  # type: ignore[attr-defined]
        return adjacency @ h

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, *gradients: Tensor) -> tuple[Tensor, None]:
        return ctx.adjacency.transposed @ gradients[0], None  # type: ignore[attr-defined]
