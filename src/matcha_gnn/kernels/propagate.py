"""Sparse products with the normalised adjacency, and the polynomial filter's own autograd."""

import abc
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, cached_property
from types import ModuleType

import numpy as np
import scipy.sparse
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable

from matcha_gnn.kernels.threads import run
from matcha_gnn.typing import Coefficients, HopStack, Repr

CACHED = 3 << 19
"""Numbers of one hop (6 MB) up to which the library's sparse product is the faster one."""
PARTS_PER_THREAD = 4
MAX_DEGREE = 4096
"""On a GPU, rows are summed side by side, and the longest holds up the others."""


class Operator(abc.ABC):
    """The normalised adjacency P of the nodes here, however its product is taken."""

    @abc.abstractmethod
    def __matmul__(self, h: Repr) -> Repr:
        """P h for h [N] or [N, D]."""

    @property
    @abc.abstractmethod
    def transposed(self) -> "Operator":
        """Pᵀ."""

    def to(self, dtype: torch.dtype) -> "Operator":
        """The same in another precision; by default whatever precision h has is taken."""
        return self


@dataclass(frozen=True)
class Adjacency(Operator):
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
        sender, receiver = edge_index.cpu().numpy()
        given = np.ones(len(sender)) if edge_weight is None else edge_weight.detach().cpu().numpy()
        loops = np.ones(num_nodes)
        own = sender == receiver
        # PyG keeps the weight of the last self loop a node has, and adds 1 where it has none.
        loops[sender[own]] = given[own]
        nodes = np.arange(num_nodes)
        row = np.concatenate([receiver[~own], nodes])
        col = np.concatenate([sender[~own], nodes])
        weight = np.concatenate([given[~own], loops]).astype(np.float64)
        degree = np.bincount(row, weight, minlength=num_nodes)
        scale = np.divide(1, np.sqrt(degree), out=np.zeros(num_nodes), where=degree > 0)
        values = scale[row] * weight * scale[col]
        csr = scipy.sparse.coo_array((values, (row, col)), shape=(num_nodes, num_nodes)).tocsr()
        return cls(csr_tensor(csr, dtype).to(edge_index.device))

    @cached_property
    def transposed(self) -> "Adjacency":
        """Pᵀ; the same numbers when the graph is undirected."""
        turned = csr_tensor(scipy_csr(self.matrix).T.tocsr(), self.matrix.dtype)
        return Adjacency(turned.to(self.matrix.device))

    def to(self, dtype: torch.dtype) -> "Adjacency":
        """The same matrix in another precision; converted once."""
        if dtype == self.matrix.dtype:
            return self
        if dtype not in self._cast:
            self._cast[dtype] = Adjacency(self.matrix.to(dtype))
        return self._cast[dtype]

    def __matmul__(self, h: Repr) -> Repr:
        """P h, one hop."""
        if beyond_cache(h) and (fast := _numba_product()):
            out = empty((self.matrix.shape[0], h.shape[1]), h)
            nothing = h if len(h) >= len(out) else out.zero_()
            fast(self, h, out, out, 0, nothing, 0.0)
            return out
        product: Repr = self.narrow @ h
        return product

    def plus(self, h: Repr, share: float, base: Repr) -> Repr:
        """P h + share · base in one pass, for h and base [N, D]: a step of Horner's rule."""
        if beyond_cache(h) and base.is_contiguous() and (fast := _numba_product()):
            out = empty(h.shape, h)
            fast(self, h, out, out, 0, base, share)
            return out
        return torch.addmm(base, self.narrow, h, beta=share)

    def write_product(self, h: Repr, out: Repr) -> None:
        """P h into a place that is there already, such as one hop of a stack."""
        torch.addmm(out, self.narrow, h, beta=0, out=out)

    @cached_property
    def max_degree(self) -> int:
        """Entries of the longest row."""
        return int(self.matrix.crow_indices().diff().max())

    @cached_property
    def narrow(self) -> Tensor:
        """On the CPU, the matrix with 32-bit positions: others torch converts in every product."""
        matrix = self.matrix
        if not matrix.is_cpu or matrix.values().numel() > np.iinfo(np.int32).max:
            return matrix
        crow, col = matrix.crow_indices().int(), matrix.col_indices().int()
        with no_beta_warning():
            return torch.sparse_csr_tensor(
                crow, col, matrix.values(), matrix.shape, check_invariants=False
            )

    @cached_property
    def arrays(self) -> tuple[NDArray[np.integer], NDArray[np.integer], NDArray[np.float32]]:
        """Row starts, columns and values on the CPU."""
        matrix = self.narrow
        parts = matrix.crow_indices(), matrix.col_indices(), matrix.values()
        crow, col, values = (part.numpy() for part in parts)
        return crow, col, values


def propagate(adjacency: Operator, h: Repr, num_hops: int) -> HopStack:
    """Stack h, P h, …, P^K h node-major, so that a node's hops lie side by side: [N, K+1, D]."""
    adjacency = adjacency.to(h.dtype)
    stack = empty((h.shape[0], num_hops + 1, h.shape[1]), h)
    stack[:, 0] = h
    if h.requires_grad or not isinstance(adjacency, Adjacency):
        _plain_hops(adjacency, h, stack)
    else:
        _fastest_hops(adjacency, h, num_hops)(adjacency, h, stack)
    return stack


def empty(shape: Sequence[int], like: Tensor) -> Tensor:
    """Memory for results, in the precision and place of another tensor.

    NumPy asks for huge pages, torch does not: the first touch of a large stack is several times
    faster, and rows that lie far apart are found faster.
    """
    if like.is_cpu and like.dtype in (torch.float32, torch.float64):
        return torch.from_numpy(np.empty(tuple(shape), str(like.dtype).removeprefix("torch.")))
    return torch.empty(shape, dtype=like.dtype, device=like.device)


def _fastest_hops(
    adjacency: Adjacency, h: Repr, num_hops: int
) -> Callable[[Adjacency, Repr, HopStack], None]:
    if h.is_cuda:
        on_gpu = h.dtype == torch.float32 and adjacency.max_degree <= MAX_DEGREE
        return (_triton_hops() if on_gpu else None) or _plain_hops
    if beyond_cache(h) and _numba_product():
        return _hops_beyond_cache
    return _hops_in_place if h.numel() * (num_hops + 1) <= 2 * CACHED else _plain_hops


def _plain_hops(adjacency: Operator, h: Repr, stack: HopStack) -> None:
    for k in range(1, stack.shape[1]):
        h = adjacency @ h
        stack[:, k] = h


def _hops_in_place(adjacency: Adjacency, h: Repr, stack: HopStack) -> None:
    """Each hop from its neighbour in the stack: nothing is copied, and all of it is cached."""
    for k in range(1, stack.shape[1]):
        adjacency.write_product(stack[:, k - 1], stack[:, k])


def _hops_beyond_cache(adjacency: Adjacency, h: Repr, stack: HopStack) -> None:
    """Each hop from a dense copy of the one before, which is closer together than the stack."""
    fast, flat = _numba_product(), stack.flatten(1)
    spare = [empty(h.shape, h) for _ in range(min(2, stack.shape[1] - 1))]
    for k in range(1, stack.shape[1]):
        out = spare[k % 2 if len(spare) > 1 else 0]
        fast(adjacency, h, out, flat, k * h.shape[1], h, 0.0)  # type: ignore[misc]
        h = out


def beyond_cache(h: Repr) -> bool:
    """Whether rows of neighbours have to be fetched from memory, in float32 on the CPU."""
    large = h.is_cpu and h.dtype == torch.float32 and h.numel() > CACHED
    return large and h.dim() == 2 and h.is_contiguous()


@cache
def _numba_product() -> Callable[[Adjacency, Repr, Repr, Tensor, int, Repr, float], None] | None:
    cpu_sparse = _numba_sparse()
    if cpu_sparse is None:
        return None

    def product(
        adjacency: Adjacency, h: Repr, out: Repr, also: Tensor, offset: int,
        base: Repr, share: float,
    ) -> None:  # fmt: skip
        crow, col, values = adjacency.arrays
        parts = PARTS_PER_THREAD * torch.get_num_threads()
        cuts = cpu_sparse.balanced_cuts(crow, parts)
        given, *written, added = (t.detach().numpy() for t in (h, out, also, base))
        matrix = (crow, col, values, given, cuts)
        run(cpu_sparse.product, parts, *matrix, *written, offset, added, np.float32(share))

    return product


def csr_rows(
    crow: NDArray[np.int64], col: NDArray[np.int32], values: NDArray[np.float32], h: Repr
) -> Repr:
    """Some rows of a sparse matrix times h [N, D]: [n, D].

    Args:
        crow: where each row starts, from 0, [n + 1].
        col: columns of its entries, [E].
        values: [E].
        h: dense, on any device.
    """
    rows = len(crow) - 1
    if h.is_cpu and h.dtype == torch.float32 and (sparse := _numba_sparse()):
        out = np.zeros((rows, h.shape[1]), np.float32)
        parts = PARTS_PER_THREAD * torch.get_num_threads()
        given = (crow, col, values, h.detach().numpy(), sparse.balanced_cuts(crow, parts))
        run(sparse.product, parts, *given, out, out, 0, out, np.float32(0))
        return torch.from_numpy(out)
    with no_beta_warning():
        arrays = (torch.from_numpy(np.array(part)).to(h.device) for part in (crow, col, values))
        starts, columns, entries = arrays
        product: Repr = (
            torch.sparse_csr_tensor(
                starts, columns.long(), entries.to(h.dtype), (rows, len(h)), check_invariants=False
            )
            @ h
        )
    return product


@cache
def _numba_sparse() -> ModuleType | None:
    try:
        from matcha_gnn.kernels import cpu_sparse
    except ImportError:
        return None
    return cpu_sparse


@cache
def _triton_hops() -> Callable[[Adjacency, Repr, HopStack], None] | None:
    try:
        from matcha_gnn.kernels import gpu
    except ImportError:
        return None

    def hops(adjacency: Adjacency, h: Repr, stack: HopStack) -> None:
        for k in range(1, stack.shape[1]):
            gpu.next_hop(adjacency.matrix, stack, k)

    return hops


def filter_hops(adjacency: Adjacency, h: Repr, coef: Coefficients) -> Repr:
    """Σ_k c_k P^k h, differentiable in h and c, for training."""
    result: Repr = _PolynomialFilter.apply(  # type: ignore[no-untyped-call]
        h, coef, adjacency.to(h.dtype)
    )
    return result


class _PolynomialFilter(torch.autograd.Function):
    """Keeps the K hops of the forward pass, and needs K products with Pᵀ backward (Horner).

    The hops are kept without their history, so a second derivative is refused, not wrong.
    """

    @staticmethod
    def forward(ctx: FunctionCtx, h: Tensor, coef: Tensor, adjacency: Adjacency) -> Tensor:
        hops = [h]
        for _ in range(coef.numel() - 1):
            hops.append(adjacency @ hops[-1])
        ctx.save_for_backward(coef, *hops)
        ctx.adjacency = adjacency  # type: ignore[attr-defined]
        mixed = hops[0] * coef[0]
        for weight, hop in zip(coef[1:], hops[1:], strict=True):
            mixed.addcmul_(hop, weight)
        return mixed

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, *gradients: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        (g,) = gradients
        coef, *hops = ctx.saved_tensors  # type: ignore[attr-defined]
        transpose = ctx.adjacency.transposed  # type: ignore[attr-defined]
        coef_gradient = torch.stack([(g * hop).sum() for hop in hops])
        g = g.contiguous()
        *rest, last = coef.tolist()
        h_gradient = g * last
        for weight in reversed(rest):
            h_gradient = transpose.plus(h_gradient, weight, g)
        return h_gradient, coef_gradient, None


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


@contextmanager
def no_beta_warning() -> Iterator[None]:
    """Hide what torch says once about any compressed sparse tensor; users cannot act on it."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*[Ss]parse.*")
        yield


def csr_tensor(matrix: scipy.sparse.csr_array, dtype: torch.dtype) -> Tensor:
    """A SciPy matrix with sorted, distinct columns in each row as a torch tensor."""
    with no_beta_warning():
        return torch.sparse_csr_tensor(
            torch.from_numpy(matrix.indptr.astype(np.int64)),
            torch.from_numpy(matrix.indices.astype(np.int64)),
            torch.from_numpy(matrix.data).to(dtype),
            matrix.shape,
            check_invariants=False,
        )


def scipy_csr(matrix: Tensor) -> scipy.sparse.csr_array:
    """A sparse CSR tensor as a SciPy matrix on the CPU."""
    parts = (matrix.values(), matrix.col_indices(), matrix.crow_indices())
    rows, columns = matrix.shape
    return scipy.sparse.csr_array(tuple(p.cpu().numpy() for p in parts), shape=(rows, columns))
