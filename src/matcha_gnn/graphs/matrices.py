"""Sparse matrices of a graph's edges, as networks take them: torch's, or one like `SparseTensor`.

A row receives from its columns, as in PyG's `adj_t` and in `adjacency @ x`.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from matcha_gnn.errors import InvalidGraphError
from matcha_gnn.kernels.sparse import no_beta_warning

LAYOUTS = (torch.sparse_coo, torch.sparse_csr, torch.sparse_csc)
NAMES = ("adj_t", "adj")
"""Fields that edges are read from where a graph has no `edge_index`."""


class Entries(NamedTuple):
    """The entries of a matrix, in the order of rows and columns; values may be missing."""

    row: Tensor
    col: Tensor
    value: Tensor | None


def require_valid(argument: str, matrix: Tensor) -> None:
    """Refuse a sparse tensor whose indices lie outside of it: torch reads and writes there.

    Args:
        argument: what errors call it.
        matrix: COO, CSR or CSC, of two dimensions and with one number for each entry.

    Raises:
        InvalidGraphError: with the index, or what else is wrong.

    Example:
        >>> places = torch.tensor([[0], [7]])
        >>> wrong = torch.sparse_coo_tensor(places, torch.ones(1), (2, 2), check_invariants=False)
        >>> require_valid("graph.x", wrong)
        Traceback (most recent call last):
        ...
        matcha_gnn.errors.InvalidGraphError: graph.x: got the index 7 of a sparse tensor; allowed: \
indices 0 to 1
    """
    rows, columns = matrix.shape
    if matrix.layout == torch.sparse_coo:
        pairs = zip(matrix._indices(), (rows, columns), strict=True)
    else:
        by_row = matrix.layout == torch.sparse_csr
        starts = matrix.crow_indices() if by_row else matrix.ccol_indices()
        inner = matrix.col_indices() if by_row else matrix.row_indices()
        outer_size, inner_size = (rows, columns) if by_row else (columns, rows)
        _require_ascending(argument, starts, outer_size, len(inner))
        pairs = zip((inner,), (inner_size,), strict=True)
    for indices, size in pairs:
        if not len(indices):
            continue
        low, high = (int(each) for each in indices.aminmax())
        if low < 0 or high >= size:
            got = f"the index {low if low < 0 else high} of a sparse tensor"
            raise InvalidGraphError(argument, got, f"indices 0 to {size - 1}")


def _require_ascending(argument: str, starts: Tensor, rows: int, entries: int) -> None:
    ends = starts.shape == (rows + 1,) and (int(starts[0]), int(starts[-1])) == (0, entries)
    if not ends or bool((starts.diff() < 0).any()):
        allowed = f"row starts that ascend from 0 to the number of entries, {entries}"
        raise InvalidGraphError(argument, "other row starts of a sparse tensor", allowed)


def is_matrix(value: object, num_nodes: int) -> bool:
    """Whether this is a sparse matrix with a row and a column for each node.

    Example:
        >>> is_matrix(torch.eye(3).to_sparse(), 3), is_matrix(torch.eye(3), 3)
        (True, False)
    """
    if isinstance(value, Tensor):
        return value.layout in LAYOUTS and value.shape == (num_nodes, num_nodes)
    return is_like_sparse_tensor(value) and tuple(value.sparse_sizes()) == (num_nodes, num_nodes)  # type: ignore[attr-defined]


def entries_of(matrix: Any) -> Entries:
    """Rows, columns and values."""
    if not isinstance(matrix, Tensor):
        return Entries(*matrix.coo())
    with no_beta_warning():
        plain = matrix.detach().to_sparse(layout=torch.sparse_coo).coalesce()
    row, col = plain.indices()
    return Entries(row, col, plain.values())


def edges_of(matrix: Any) -> Tensor:
    """The edges of a matrix, senders and receivers, [2, E].

    Example:
        >>> edges_of(torch.tensor([[0.0, 1.0], [0.0, 0.0]]).to_sparse())
        tensor([[1],
                [0]])
    """
    found = entries_of(matrix)
    return torch.stack([found.col, found.row])


def matrix_of(edge_index: Tensor, num_nodes: int, weight: Tensor) -> Tensor:
    """PyG's `adj_t` of edges [2, E] with weights [E], as a sparse CSR tensor [N, N]."""
    with no_beta_warning():
        return _coo(edge_index.flip(0), weight, (num_nodes, num_nodes)).to_sparse_csr()


def followed(matrix: Any, before: Tensor, after: Tensor, rows: Tensor) -> Any | None:
    """The matrix where edges were taken away or got other ends; None where it is of other edges.

    Entries keep their values. Loops that are no edges, such as those that a normalisation has
    added, stay.

    Args:
        matrix: its entries off the diagonal are the edges.
        before: the edges so far, [2, E].
        after: those that are left, with the ends they have now, [2, E'].
        rows: the numbers that these had, [E'].

    Example:
        >>> edges = torch.tensor([[0, 1], [1, 0]])
        >>> matrix = matrix_of(edges, 2, torch.tensor([2.0, 3.0])).to_sparse_coo()
        >>> followed(matrix, edges, edges[:, :1], torch.tensor([0])).to_dense()
        tensor([[0., 0.],
                [2., 0.]])
    """
    number = matrix.size(0)
    given = entries_of(matrix)
    keys, which = torch.unique(before[0] * number + before[1], return_inverse=True)
    for flip in (False, True):
        row, col = (given.col, given.row) if flip else (given.row, given.col)
        at = torch.searchsorted(keys, wanted := col * number + row).clamp_max(max(len(keys) - 1, 0))
        is_edge = keys[at] == wanted if len(keys) else torch.zeros_like(row, dtype=torch.bool)
        if bool((row == col)[~is_edge].all()) and int(is_edge.sum()) == len(keys):
            break
    else:
        return None
    entry = torch.empty_like(keys)
    entry[at[is_edge]] = is_edge.nonzero()[:, 0]
    # An edge that is listed twice has one entry.
    kept = torch.unique(torch.stack([*after, entry[which[rows]]]), dim=1)
    ends = kept[:2] if flip else kept[:2].flip(0)
    loops = (~is_edge).nonzero()[:, 0]
    places = torch.cat([ends, torch.stack([given.row[loops], given.col[loops]])], 1)
    value = None if given.value is None else given.value[torch.cat([kept[2], loops])]
    return _built(matrix, places, value)


def _built(like: Any, places: Tensor, value: Tensor | None) -> Any:
    """A matrix of the same kind with other entries."""
    if not isinstance(like, Tensor):
        sizes = tuple(like.sparse_sizes())
        return type(like)(row=places[0], col=places[1], value=value, sparse_sizes=sizes)
    assert value is not None, "torch's matrices have values"
    made = _coo(places, value, like.shape)
    if like.layout == torch.sparse_coo:
        return made
    with no_beta_warning():
        return made.to_sparse(layout=like.layout)


def _coo(places: Tensor, value: Tensor, size: tuple[int, ...]) -> Tensor:
    return torch.sparse_coo_tensor(places, value, size, check_invariants=False).coalesce()


def is_like_sparse_tensor(value: object) -> bool:
    """By what it can do: the package that has `SparseTensor` need not be installed."""
    return callable(getattr(value, "coo", None)) and callable(getattr(value, "sparse_sizes", None))
