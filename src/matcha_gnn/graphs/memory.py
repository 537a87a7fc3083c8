"""Graphs in memory: checked, and without labels."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import numpy as np
import scipy.sparse
import torch
import xxhash
from torch import Tensor

from matcha_gnn.errors import InvalidGraphError, require_one_graph
from matcha_gnn.graphs.extras import Extras, fields_of
from matcha_gnn.graphs.matrices import NAMES as MATRIX_NAMES
from matcha_gnn.graphs.matrices import edges_of, is_matrix, require_valid
from matcha_gnn.kernels import Adjacency
from matcha_gnn.kernels.links import Links
from matcha_gnn.kernels.sparse import no_beta_warning
from matcha_gnn.streams import Purpose, torch_stream

T = TypeVar("T")
FLOATS = (torch.float32, torch.float64)
SPARSE = (torch.sparse_coo, torch.sparse_csr, torch.sparse_csc)


class GraphLike(Protocol):
    """The required fields of a PyG `Data`: features and edges. Labels and masks are optional."""

    x: Any
    edge_index: Any


@dataclass(frozen=True)
class GraphFacts:
    """Counts that describe a graph."""

    num_nodes: int
    num_edges: int
    num_features: int
    self_loops: int
    duplicate_edges: int
    isolated_nodes: int
    directed: bool
    sparse_features: bool

    def remarks(self) -> list[str]:
        """Remarks on unusual properties; empty for a plain graph."""
        remarks = {
            f"{self.self_loops:,} self loops: kept, with their weight": self.self_loops,
            f"{self.duplicate_edges:,} repeated edges: their weights add up": self.duplicate_edges,
            f"{self.isolated_nodes:,} isolated nodes: they keep their own features": (
                self.isolated_nodes
            ),
            "directed: a node receives along its incoming edges": self.directed,
        }
        return [remark for remark, applies in remarks.items() if applies]


@dataclass(frozen=True, eq=False)
class Graph:
    """A graph in memory, checked and without labels; `unlabelled` makes it.

    Attributes:
        x: features, dense [N, F] or sparse CSR.
        edge_index: senders and receivers, [2, E].
        edge_weight: [E], or None for ones.
        extras: further fields, such as `edge_attr`, for networks that take them as arguments.
    """

    x: Tensor
    edge_index: Tensor
    edge_weight: Tensor | None = None
    extras: Extras = Extras()
    _kept: dict[str, tuple[tuple[int, ...], Any]] = field(
        default_factory=dict, init=False, repr=False
    )

    @property
    def num_nodes(self) -> int:
        """N."""
        return self.x.shape[0]

    @property
    def num_features(self) -> int:
        """F."""
        return self.x.shape[1]

    @property
    def device(self) -> torch.device:
        """Where the tensors are."""
        return self.x.device

    @property
    def fingerprint(self) -> str:
        """A hash of the content: two graphs share it only if their tensors are equal."""
        weight = () if self.edge_weight is None else (self.edge_weight,)
        tensors = (*csr_parts(self.x), self.edge_index, *weight)
        sources = (*tensors, *self.extras.tensors)
        return self._keep(
            "fingerprint", sources, lambda: content_hash(*tensors, *self.extras.hashed())
        )

    @property
    def adjacency(self) -> Adjacency:
        """The normalised adjacency P."""
        edges, weight = self.edge_index, self.edge_weight
        return self._keep(
            "adjacency",
            (edges, weight),
            lambda: Adjacency.normalised(edges, self.num_nodes, weight, self.x.dtype),
        )

    def sample_links(self, most: int, seed: int) -> Tensor:
        """Edges between different nodes, [2, E']: all, or `most` drawn with repetitions."""
        edges = self.edge_index
        links = edges[:, edges[0] != edges[1]]
        if links.shape[1] <= most:
            return links
        generator = torch_stream(seed, Purpose.LINKS)
        drawn = torch.randint(links.shape[1], (most,), generator=generator)
        return links[:, drawn.to(links.device)]

    @property
    def incoming(self) -> Links:
        """The edges by receiver, without self loops."""
        edges = self.edge_index
        return self._keep("incoming", (edges,), lambda: Links.of(edges, self.num_nodes))

    @property
    def reciprocal(self) -> bool:
        """Whether every edge has its reverse, as often."""
        edges = self.edge_index
        return self._keep("reciprocal", (edges,), lambda: imbalance(*edges) == 0)

    @property
    def symmetric(self) -> bool:
        """Whether the normalised adjacency is known to be its own transpose."""
        return self.edge_weight is None and self.reciprocal

    @property
    def facts(self) -> GraphFacts:
        """Counts for reports and warnings."""
        return self._keep("facts", (self.edge_index,), self._count)

    def _count(self) -> GraphFacts:
        sender, receiver = self.edge_index.cpu().numpy()
        shape = (self.num_nodes, self.num_nodes)
        ones = np.ones(len(sender), dtype=np.int64)
        counts = scipy.sparse.coo_array((ones, (receiver, sender)), shape=shape).tocsr()
        pattern = counts.copy()
        pattern.data[:] = 1
        linked = np.zeros(self.num_nodes, dtype=bool)
        apart = sender != receiver
        linked[sender[apart]] = linked[receiver[apart]] = True
        return GraphFacts(
            num_nodes=self.num_nodes,
            num_edges=len(sender),
            num_features=self.num_features,
            self_loops=int((~apart).sum()),
            duplicate_edges=len(sender) - counts.nnz,
            isolated_nodes=int((~linked).sum()),
            directed=bool(abs(pattern - pattern.T).sum()),
            sparse_features=self.x.layout == torch.sparse_csr,
        )

    def at_edges(self, kept: Tensor) -> "Graph":
        """The same nodes with some of the edges, by mask [E] or by number."""
        rows = kept.nonzero()[:, 0] if kept.dtype == torch.bool else kept
        weight = None if self.edge_weight is None else self.edge_weight[rows]
        edges = self.edge_index[:, rows]
        return Graph(self.x, edges, weight, self.extras.following(self.edge_index, edges, rows))

    def with_ends(self, edge_index: Tensor) -> "Graph":
        """The same nodes, with other ends of each edge, [2, E]."""
        rows = torch.arange(edge_index.shape[1], device=self.device)
        extras = self.extras.following(self.edge_index, edge_index, rows)
        return Graph(self.x, edge_index, self.edge_weight, extras)

    def __deepcopy__(self, memo: dict[int, Any]) -> "Graph":
        """Copies of the tensors; what is kept for them is made anew. Torch copies no CSR matrix."""
        copied = copy.copy(self)
        for name, value in vars(copied).items():
            is_tensor = isinstance(value, Tensor)
            vars(copied)[name] = value.clone() if is_tensor else copy.deepcopy(value, memo)
        return copied

    def __getstate__(self) -> dict[str, Any]:
        """What is kept for the tensors stays behind."""
        return {**vars(self), "_kept": {}}

    def _keep(self, name: str, sources: Sequence[Tensor | None], make: Callable[[], T]) -> T:
        """A value that is computed again after an in-place change of its tensors.

        Torch counts the changes, except those made through NumPy or `.data`.
        """
        # Tensors made in inference mode have no count: outside it they cannot change.
        versions = tuple(
            0 if each is None or each.is_inference() else each._version for each in sources
        )
        if name not in self._kept or self._kept[name][0] != versions:
            self._kept[name] = versions, make()
        value: T = self._kept[name][1]
        return value


def unlabelled(graph: Graph | GraphLike) -> Graph:
    """Check a PyG `Data` and return a view of it without labels; tensors are shared, not copied.

    Args:
        graph: has `x` [N, F] (dense or sparse; whole numbers, bool and half precision become
            float32) and `edge_index` [2, E] (int64), or a sparse matrix `adj_t` [N, N] in its
            place, whose rows receive; and may have `edge_weight` [E]. Other fields are kept as
            they are, except `y`, `train_mask`, `val_mask` and `test_mask`.

    Raises:
        InvalidGraphError: one line that names the field, what it was, and what is allowed.

    Example:
        >>> from torch_geometric.data import Data
        >>> data = Data(x=torch.ones(3, 2), edge_index=torch.tensor([[0, 1], [1, 0]]))
        >>> view = unlabelled(data)
        >>> view.num_nodes, view.facts.isolated_nodes, hasattr(view, "y")
        (3, 1, False)
    """
    if isinstance(graph, Graph):
        return graph
    require_one_graph(graph)
    x = _checked_features(getattr(graph, "x", None))
    edge_index = _checked_edges(_edges_given(graph, x.shape[0]), x.shape[0])
    weight = _checked_weights(getattr(graph, "edge_weight", None), edge_index.shape[1])
    if edge_index.device != x.device:
        raise InvalidGraphError("graph.edge_index", f"device {edge_index.device}", str(x.device))
    precision = graph.x.dtype if graph.x.is_floating_point() else x.dtype
    extras = Extras.of(fields_of(graph), x, edge_index.shape[1], precision)
    return Graph(_plain(x), _plain(edge_index), None if weight is None else _plain(weight), extras)


def _plain(tensor: Tensor) -> Tensor:
    """The tensor itself, but a copy of one made in inference mode: that cannot be derived from."""
    return tensor.clone() if tensor.is_inference() else tensor


def _checked_features(x: object) -> Tensor:
    allowed = "a tensor of numbers [nodes, features] with at least one of each"
    if not isinstance(x, Tensor):
        raise InvalidGraphError("graph.x", type(x).__name__, allowed)
    if x.dim() != 2 or 0 in x.shape:
        raise InvalidGraphError("graph.x", f"shape {list(x.shape)}", allowed)
    if x.dtype.is_complex or x.is_quantized:
        raise InvalidGraphError("graph.x", x.dtype, allowed)
    if x.layout != torch.strided:
        if x.layout not in SPARSE or x.dense_dim():
            raise InvalidGraphError("graph.x", x.layout, f"{allowed}, dense or COO, CSR, CSC")
        require_valid("graph.x", x)
        with no_beta_warning():
            x = x.to_sparse_csr()
    if x.dtype not in FLOATS:
        x = x.to(torch.float32)
    values = x.values() if x.layout == torch.sparse_csr else x
    # A finite sum rules out NaN and infinity without a mask of N by F.
    if not torch.isfinite(values.sum()) and not bool(torch.isfinite(values).all()):
        bad = int((~torch.isfinite(values)).sum())
        raise InvalidGraphError("graph.x", f"{bad} NaN or infinite entries", "finite numbers")
    return x


def _edges_given(graph: object, num_nodes: int) -> object:
    """Edges, or those of a sparse matrix where there are none."""
    found: object = getattr(graph, "edge_index", None)
    for name in MATRIX_NAMES:
        matrix = getattr(graph, name, None)
        if found is None and is_matrix(matrix, num_nodes):
            if isinstance(matrix, Tensor):
                require_valid(f"graph.{name}", matrix)
            found = edges_of(matrix)
    return found


def _checked_edges(edge_index: object, num_nodes: int) -> Tensor:
    allowed = "an int64 tensor [2, edges]; a sparse matrix goes into the field adj_t"
    if not isinstance(edge_index, Tensor) or edge_index.layout != torch.strided:
        got = edge_index.layout if isinstance(edge_index, Tensor) else type(edge_index).__name__
        raise InvalidGraphError("graph.edge_index", got, allowed)
    if edge_index.dtype not in (torch.int64, torch.int32):
        raise InvalidGraphError("graph.edge_index", edge_index.dtype, allowed)
    if edge_index.dim() != 2 or edge_index.shape[0] != 2:
        raise InvalidGraphError("graph.edge_index", f"shape {list(edge_index.shape)}", allowed)
    if edge_index.numel():
        low, high = torch.stack(edge_index.aminmax()).tolist()
        if low < 0 or high >= num_nodes:
            wrong = low if low < 0 else high
            allowed = f"node numbers 0 to {num_nodes - 1}"
            raise InvalidGraphError("graph.edge_index", f"node number {wrong}", allowed)
    return edge_index.long()


def _checked_weights(weight: object, num_edges: int) -> Tensor | None:
    if weight is None:
        return None
    allowed = f"a float32 or float64 tensor [{num_edges}] of finite numbers >= 0"
    if not isinstance(weight, Tensor) or weight.dtype not in FLOATS:
        got = weight.dtype if isinstance(weight, Tensor) else type(weight).__name__
        raise InvalidGraphError("graph.edge_weight", got, allowed)
    if weight.shape != (num_edges,):
        raise InvalidGraphError("graph.edge_weight", f"shape {list(weight.shape)}", allowed)
    if not bool((torch.isfinite(weight) & (weight >= 0)).all()):
        raise InvalidGraphError("graph.edge_weight", "negative or non-finite entries", allowed)
    return weight


def content_hash(*tensors: Tensor) -> str:
    """128-bit hash of shapes, types and bytes."""
    digest = xxhash.xxh3_128()
    for tensor in tensors:
        digest.update(f"{tensor.dtype}{list(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().view(-1).numpy().data)
    return digest.hexdigest()


def csr_parts(x: Tensor) -> tuple[Tensor, ...]:
    """The tensors of features: three of a sparse CSR matrix, else one."""
    if x.layout == torch.sparse_csr:
        return x.crow_indices(), x.col_indices(), x.values()
    return (x,)


def imbalance(sender: Tensor, receiver: Tensor) -> int:
    """Zero if every edge has its reverse, as often.

    Σ f(sender) g(receiver) − f(receiver) g(sender), with random functions f and g and exact
    arithmetic modulo 2^64: zero without the reverses with probability about 2^-64.

    Example:
        >>> imbalance(torch.tensor([0, 1]), torch.tensor([1, 0]))
        0
    """
    there = (_scattered(sender, 0) * _scattered(receiver, 1)).sum()
    back = (_scattered(receiver, 0) * _scattered(sender, 1)).sum()
    return int(there - back)


def _scattered(numbers: Tensor, stream: int) -> Tensor:
    """A fixed random 64-bit number for each number in each of two streams, 0 and 1 (SplitMix64)."""
    mixed = (2 * numbers + stream) * -0x61C8864680B583EB
    for shift, factor in ((30, -0x40A7B892E31B1A47), (27, -0x6B2FB644ECCEEE15), (31, 1)):
        # A logical shift to the right.
        mixed = (mixed ^ (mixed >> shift & (1 << (64 - shift)) - 1)) * factor
    return mixed
