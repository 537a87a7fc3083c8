"""From edges to the normalised adjacency in CSR form, where the edges are.

Both ways give the same matrix. On the CPU SciPy counts the entries of each row: with two threads
torch's sort takes twice as long from a million edges on. Elsewhere entries are sorted where they
are, and nothing but a few sizes goes to the host.
"""

from typing import NamedTuple

import numpy as np
import scipy.sparse
import torch
from numpy.typing import NDArray
from torch import Tensor

from matcha_gnn.kernels.sparse import csr_of, row_blocks, row_starts, scipy_csr

_BLOCK = 1 << 18
"""Entries whose values are computed at a time: what they need stays in the cache."""


class Entries(NamedTuple):
    """Entries of A + I in CSR form: sorted by row, then by column, and distinct.

    Attributes:
        crow: where each row starts, [N+1].
        col: sender of each entry, [M].
        weight: raw weight of each entry, [M].
    """

    crow: Tensor
    col: Tensor
    weight: Tensor


def normalised_csr(
    edge_index: Tensor, num_nodes: int, edge_weight: Tensor | None, dtype: torch.dtype
) -> Tensor:
    """P = D^-1/2 (A + I) D^-1/2 as a sparse CSR tensor; see `propagate.Adjacency`.

    Args:
        edge_index: senders and receivers, [2, E].
        num_nodes: N.
        edge_weight: [E], or None for ones.
        dtype: of the entries. They are computed in float64.

    Example:
        >>> normalised_csr(torch.tensor([[0, 1], [1, 0]]), 2, None, torch.float32).to_dense()
        tensor([[0.5000, 0.5000],
                [0.5000, 0.5000]])
    """
    find = counted_entries if edge_index.is_cpu else sorted_entries
    crow, col, weight = find(edge_index, num_nodes, edge_weight)
    degree = _row_sums(crow, weight)
    scale = torch.where(degree > 0, degree.rsqrt(), 0)
    values = torch.empty(len(col), dtype=dtype, device=col.device)
    most = _BLOCK if crow.is_cpu else len(col)
    for rows, entries, starts in row_blocks(crow, max(1, num_nodes * most // len(col))):
        size = entries.stop - entries.start
        here = torch.repeat_interleave(scale[rows], starts.diff(), output_size=size)
        values[entries] = here.mul_(weight[entries]).mul_(scale.index_select(0, col[entries]))
    return csr_of(crow, col, values, (num_nodes, num_nodes))


def counted_entries(edge_index: Tensor, num_nodes: int, edge_weight: Tensor | None) -> Entries:
    """The entries of A + I, by SciPy on the CPU."""
    sender, receiver = edge_index.numpy()
    own = sender == receiver
    apart = slice(None) if not own.any() else ~own
    sender, receiver, own = sender[apart], receiver[apart], own.nonzero()[0]
    count, kind = len(sender), _narrowest(edge_index.shape[1] + num_nodes)
    row, col = np.empty((2, count + num_nodes), kind)
    row[:count], col[:count] = receiver, sender
    row[count:] = col[count:] = np.arange(num_nodes)
    # Single precision counts parallel edges exactly, and is moved in half the time.
    kept = np.float32 if edge_weight is None else np.float64
    weight: NDArray[np.floating] = np.ones(count + num_nodes, kept)
    if edge_weight is not None:
        given = edge_weight.detach().numpy()
        weight[:count] = given[apart]
        # PyG keeps the weight of the last self loop a node has, and adds 1 where it has none.
        weight[count + edge_index[0].numpy()[own]] = given[own]
    shape = (num_nodes, num_nodes)
    found = scipy.sparse.coo_array((weight, (row, col)), shape=shape).tocsr()
    parts = (found.indptr.astype(kind), found.indices.astype(kind), found.data)
    return Entries(*(torch.from_numpy(part) for part in parts))


def sorted_entries(edge_index: Tensor, num_nodes: int, edge_weight: Tensor | None) -> Entries:
    """The same by sorting, on any device."""
    sender, receiver = edge_index
    nodes = torch.arange(num_nodes, device=edge_index.device)
    apart, loops = sender != receiver, torch.ones(num_nodes, device=nodes.device).double()
    given = loops.new_ones(len(sender)) if edge_weight is None else edge_weight.detach().double()
    if edge_weight is not None:
        # The last self loop of a node, whatever order the device writes in.
        places = torch.arange(len(sender), device=nodes.device)[~apart]
        last = torch.full_like(nodes, -1).scatter_reduce(0, sender[~apart], places, "amax")
        loops[last >= 0] = given[last[last >= 0]]
    keys = torch.cat([receiver[apart] * num_nodes + sender[apart], nodes * (num_nodes + 1)])
    keys, order = keys.sort(stable=True)
    weight = torch.cat([given[apart], loops])[order]
    new = torch.ones_like(keys, dtype=torch.bool)
    torch.ne(keys[1:], keys[:-1], out=new[1:])
    starts = new.nonzero()[:, 0]
    if len(starts) < len(keys):
        ends = torch.cat([starts, starts.new_full((1,), len(keys))])
        keys, weight = keys[starts], _row_sums(ends, weight)
    row = keys.div(num_nodes, rounding_mode="floor")
    kind = torch.int32 if len(keys) <= torch.iinfo(torch.int32).max else torch.int64
    return Entries(row_starts(row, num_nodes).to(kind), (keys - row * num_nodes).to(kind), weight)


def transposed_csr(matrix: Tensor) -> Tensor:
    """The transpose of a CSR tensor as one, where it is."""
    rows, columns = matrix.shape
    turned = counted_transpose(matrix) if matrix.is_cpu else sorted_transpose(matrix)
    return csr_of(*turned, (columns, rows))


def counted_transpose(matrix: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Row starts, columns and values of the transpose, by SciPy on the CPU."""
    turned = scipy_csr(matrix).T.tocsr()
    starts = turned.indptr.astype(turned.indices.dtype)
    return torch.from_numpy(starts), torch.from_numpy(turned.indices), torch.from_numpy(turned.data)


def sorted_transpose(matrix: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The same by sorting, on any device."""
    col = matrix.col_indices()
    row = torch.repeat_interleave(matrix.crow_indices().diff(), output_size=len(col))
    order = torch.argsort(col, stable=True)
    return row_starts(col, matrix.shape[1]), row[order], matrix.values()[order]


def _row_sums(crow: Tensor, values: Tensor) -> Tensor:
    """Sums of consecutive values, as often the same: scattered additions on a GPU are not."""
    if values.is_cpu:
        starts: NDArray[np.integer] = crow.numpy()
        # Every row has an entry: its own.
        return torch.from_numpy(np.add.reduceat(values.numpy(), starts[:-1], dtype=np.float64))
    return torch.segment_reduce(values, "sum", offsets=crow, unsafe=True)


def _narrowest(count: int) -> type[np.integer]:
    """32 bits where they can number all entries: torch's products on the CPU want these."""
    return np.int32 if count <= np.iinfo(np.int32).max else np.int64
