"""The polynomial filter of the normalised adjacency, differentiable in the raw edge weights.

Degrees are recomputed from the weights, so the gradient of an edge counts what the edge does to
the normalisation of its receiver. Memory is O(E) plus the hops: no message per edge is kept.
"""

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable

from matcha_gnn import kernels
from matcha_gnn.graphs.memory import Graph
from matcha_gnn.kernels.propagate import Adjacency, nested
from matcha_gnn.kernels.sparse import csr_of, row_starts
from matcha_gnn.typing import HopWeights, Repr

SMALLEST = 1e-7
"""What is learnt of an edge stays this far from 0 and 1: no weight and no degree becomes 0."""


@dataclass(frozen=True, eq=False)
class EdgePattern:
    """Where A + I has entries, in the order of CSR rows: row i gathers what node i receives.

    The conventions are those of `Adjacency`: a node that has a self loop keeps it, every other
    gets one of weight 1, and parallel edges are one entry whose weight is their sum.

    Attributes:
        crow: where each row starts, [N+1].
        row: receiver of each entry, [M].
        col: sender of each entry, [M].
        weight: raw weight of each entry, before normalisation, [M].
        pair: number of the unordered pair of nodes that an entry joins, [M]; both directions
            share it, and self loops have `num_pairs`.
        num_pairs: pairs of distinct nodes that are joined.
        order: the entries in the order of the transpose, [M].
        crow_t: where each row of the transpose starts, [N+1].
        col_t: its columns, [M].

    Example:
        >>> pattern = EdgePattern.of(torch.tensor([[0, 1, 2], [1, 0, 2]]), 3, None, torch.float32)
        >>> pattern.pair
        tensor([1, 0, 0, 1, 1])
        >>> pattern.matrix(pattern.normalise(pattern.weight)[0]).to_dense()
        tensor([[0.5000, 0.5000, 0.0000],
                [0.5000, 0.5000, 0.0000],
                [0.0000, 0.0000, 1.0000]])
    """

    crow: Tensor
    row: Tensor
    col: Tensor
    weight: Tensor
    pair: Tensor
    num_pairs: int
    order: Tensor
    crow_t: Tensor
    col_t: Tensor

    @classmethod
    def of_graph(cls, graph: Graph, dtype: torch.dtype) -> "EdgePattern":
        """Build from a graph's edges and weights."""
        return cls.of(graph.edge_index, graph.num_nodes, graph.edge_weight, dtype)

    @classmethod
    def of(
        cls, edge_index: Tensor, num_nodes: int, edge_weight: Tensor | None, dtype: torch.dtype
    ) -> "EdgePattern":
        """Build from edges [2, E] (row 0 sends, row 1 receives) and weights [E] or ones."""
        from torch_geometric.utils import add_remaining_self_loops, coalesce

        ones = torch.ones(edge_index.shape[1], dtype=dtype, device=edge_index.device)
        given = ones if edge_weight is None else edge_weight.detach().to(dtype)
        edges, weight = add_remaining_self_loops(edge_index, given, 1.0, num_nodes)
        (col, row), weight = coalesce(edges, weight, num_nodes, sort_by_row=False)
        pair, num_pairs = numbered_pairs(row, col, num_nodes)
        order = torch.argsort(col, stable=True)
        return cls(
            crow=row_starts(row, num_nodes),
            row=row,
            col=col,
            weight=weight,
            pair=pair,
            num_pairs=num_pairs,
            order=order,
            crow_t=row_starts(col, num_nodes),
            col_t=row[order],
        )

    def normalise(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Entries of P = D^-1/2 (A_w + I) D^-1/2 [M], and D's diagonal in float64 [N]."""
        degree = self._row_sums(weight.double())
        return (weight * self._scales(degree)).to(weight.dtype), degree

    def matrix(self, values: Tensor) -> Tensor:
        """A CSR tensor with these entries, [N, N]."""
        crow, col, _, _ = self._narrow
        return self._csr(crow, col, values)

    def transpose(self, values: Tensor) -> Tensor:
        """The transpose of `matrix`, as a CSR tensor too."""
        _, _, crow, col = self._narrow
        return self._csr(crow, col, values.index_select(0, self.order))

    @cached_property
    def _narrow(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Row starts and columns both ways; on the CPU in 32 bits, as torch wants them there."""
        wide = self.crow, self.col, self.crow_t, self.col_t
        if not self.crow.is_cpu or len(self.col) > torch.iinfo(torch.int32).max:
            return wide
        crow, col, crow_t, col_t = (positions.int() for positions in wide)
        return crow, col, crow_t, col_t

    def weight_gradient(self, value_gradient: Tensor, weight: Tensor) -> Tensor:
        """Gradient in the raw weights [M] from a gradient in the entries of P [M].

        With P_vu = w_vu / √(d_v d_u) and d_v = Σ_u w_vu, a weight acts on its own entry and,
        through d_v, on row v and column v of P.
        """
        degree = self._row_sums(weight.double())
        direct = value_gradient * self._scales(degree)
        shares = direct * weight
        around = self._row_sums(shares) + self._column_sums(shares)
        through_degree = torch.where(degree > 0, around / (2 * degree), 0)
        return (direct - through_degree.index_select(0, self.row)).to(weight.dtype)

    def _scales(self, degree: Tensor) -> Tensor:
        """1 / √(d_v d_u) of each entry in float64, 0 where a degree is 0."""
        scale = torch.where(degree > 0, degree.rsqrt(), 0)
        return scale.index_select(0, self.row) * scale.index_select(0, self.col)

    # Segment sums, not scattered additions: on a GPU the latter change from run to run.

    def _row_sums(self, values: Tensor) -> Tensor:
        return torch.segment_reduce(values, "sum", offsets=self.crow)

    def _column_sums(self, values: Tensor) -> Tensor:
        return torch.segment_reduce(values.index_select(0, self.order), "sum", offsets=self.crow_t)

    def _csr(self, crow: Tensor, col: Tensor, values: Tensor) -> Tensor:
        return csr_of(crow, col, values, (len(crow) - 1, len(crow) - 1))


@dataclass(frozen=True, eq=False, kw_only=True)
class WeightedGraph(Graph):
    """A graph whose edges have raw weights that may be learnt.

    Attributes:
        pattern: where the weights stand.
        learnt: weight of each entry of the pattern, at least 0, [M].
    """

    pattern: EdgePattern
    learnt: Tensor

    @cached_property
    def adjacency(self) -> Adjacency:
        """The normalised adjacency, without history."""
        values, _ = self.pattern.normalise(self.learnt.detach())
        return Adjacency(self.pattern.matrix(values))


def hop(graph: Graph, h: Repr) -> Repr:
    """P h, differentiable in h, and in the weights of a `WeightedGraph` that learns them."""
    if isinstance(graph, WeightedGraph) and graph.learnt.requires_grad:
        return weighted_filter(graph.pattern, graph.learnt, h, h.new_tensor([0.0, 1.0]))
    return kernels.one_hop(graph.adjacency, h)


def filter_hops(graph: Graph, h: Repr, hop_weights: HopWeights) -> Repr:
    """Σ_k c_k P^k h, differentiable in h, in c, and in weights as `hop`."""
    if isinstance(graph, WeightedGraph) and graph.learnt.requires_grad:
        return weighted_filter(graph.pattern, graph.learnt, h, hop_weights)
    return kernels.filter_hops(graph.adjacency, h, hop_weights)


class ListedEdges(NamedTuple):
    """The listed edges of a graph, named as those of an `EdgePattern`."""

    row: Tensor
    col: Tensor
    weight: Tensor
    pair: Tensor
    num_pairs: int

    @classmethod
    def of_graph(cls, graph: Graph, dtype: torch.dtype) -> "ListedEdges":
        """Each edge by itself, without self loops that are not there."""
        col, row = graph.edge_index
        ones = torch.ones(len(row), dtype=dtype, device=row.device)
        weight = ones if graph.edge_weight is None else graph.edge_weight.detach().to(dtype)
        return cls(row, col, weight, *numbered_pairs(row, col, graph.num_nodes))


def project(p: Tensor, budget: float) -> Tensor:
    """The point nearest to p with entries inside (0, 1) whose sum is at most the budget.

    It is p − μ clipped to the interval, with the smallest μ ≥ 0 within the budget, by bisection.
    """

    def cut(shift: float) -> Tensor:
        return (p - shift).clamp(SMALLEST, 1 - SMALLEST)

    if float(cut(0.0).double().sum()) <= budget:
        return cut(0.0)
    low, high = 0.0, float(p.max())
    # Halved until the two ends are adjacent numbers in the precision of p.
    for _ in range(2 - int(math.log2(torch.finfo(p.dtype).eps))):
        middle = (low + high) / 2
        over = float(cut(middle).double().sum()) > budget
        low, high = (middle, high) if over else (low, middle)
    return cut(high)


def numbered_pairs(row: Tensor, col: Tensor, num_nodes: int) -> tuple[Tensor, int]:
    """The number of the unordered pair that each entry joins [M], and how many there are.

    Self loops join no pair, and have the number after the last.
    """
    apart = row != col
    key = torch.minimum(row, col) * num_nodes + torch.maximum(row, col)
    joined, number = key[apart].unique(return_inverse=True)  # type: ignore[no-untyped-call]
    pair = torch.full_like(row, len(joined))
    pair[apart] = number
    return pair, len(joined)


def weighted_filter(pattern: EdgePattern, weight: Tensor, h: Repr, hop_weights: HopWeights) -> Repr:
    """Σ_k c_k P_w^k h, differentiable in the raw weights, in h and in c.

    Args:
        pattern: where the weights stand.
        weight: raw weight of each entry of the pattern, at least 0, [M].
        h: what is propagated, [N, D].
        hop_weights: [K+1].

    Returns:
        The filtered features, [N, D].
    """
    result: Repr = _WeightedFilter.apply(weight, h, hop_weights, pattern)  # type: ignore[no-untyped-call]
    return result


class _WeightedFilter(torch.autograd.Function):
    """With G_k the gradient in hop k, entry (v, u) of P has the gradient Σ_k ⟨G_k[v], H_k−1[u]⟩.

    Each ⟨·, ·⟩ is a dense product sampled at the entries. The hops are kept only where a gradient
    needs them, and without their history: a second derivative is refused, not wrong.
    """

    @staticmethod
    def forward(
        ctx: FunctionCtx, weight: Tensor, h: Tensor, hop_weights: Tensor, pattern: EdgePattern
    ) -> Tensor:
        values, _ = pattern.normalise(weight)
        matrix, hops = Adjacency(pattern.matrix(values)), [h]
        ctx.pattern = pattern  # type: ignore[attr-defined]
        needs_weight, _, needs_hop_weights, _ = ctx.needs_input_grad  # type: ignore[attr-defined]
        if not (needs_weight or needs_hop_weights):
            ctx.save_for_backward(weight, values, hop_weights)
            return nested(matrix, h, hop_weights.tolist())
        for _ in range(hop_weights.numel() - 1):
            hops.append(matrix @ hops[-1])
        ctx.save_for_backward(weight, values, hop_weights, *hops)
        mixed = hops[0] * hop_weights[0]
        for share, hop in zip(hop_weights[1:], hops[1:], strict=True):
            mixed.addcmul_(hop, share)
        return mixed

    @staticmethod
    @once_differentiable
    def backward(
        ctx: FunctionCtx, *gradients: Tensor
    ) -> tuple[Tensor | None, Tensor | None, Tensor | None, None]:
        (g,) = gradients
        weight, values, hop_weights, *hops = ctx.saved_tensors  # type: ignore[attr-defined]
        pattern: EdgePattern = ctx.pattern  # type: ignore[attr-defined]
        needs_weight, needs_h, needs_hop_weights, _ = ctx.needs_input_grad  # type: ignore[attr-defined]
        of_weight = of_h = of_hop_weights = None
        if needs_hop_weights:
            of_hop_weights = torch.stack([(g * hop).sum() for hop in hops])
        slopes = _steps(Adjacency(pattern.transpose(values)), g, hop_weights.tolist())
        if needs_weight:
            sampled = pattern.matrix(torch.zeros_like(values))
            for hop in reversed(hops[:-1]):
                sampled = torch.sparse.sampled_addmm(sampled, next(slopes), hop.T)
            of_weight = pattern.weight_gradient(sampled.values(), weight)
        if needs_h:
            of_h = _last(slopes)
        return of_weight, of_h, of_hop_weights, None


def _steps(matrix: Adjacency, h: Tensor, hop_weights: list[float]) -> Iterator[Tensor]:
    """The steps of `nested`: c_K h, then M times that plus c_K−1 h, and so on.

    Applied to the transpose and the gradient of the result, it gives the gradients in the hops,
    from the last to the first.
    """
    mixed = h * hop_weights[-1]
    yield mixed
    for share in reversed(hop_weights[:-1]):
        mixed = matrix.plus(mixed, share, h)
        yield mixed


def _last(results: Iterator[Tensor]) -> Tensor:
    """The last result; the others are released at once, so that their memory is reused."""
    return deque(results, maxlen=1).pop()
