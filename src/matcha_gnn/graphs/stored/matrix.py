"""Products with a matrix P that is read from its files in blocks of rows."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse
import torch
from numpy.typing import NDArray
from torch import Tensor

from matcha_gnn.graphs.base import imbalance
from matcha_gnn.kernels import Operator, csr_rows
from matcha_gnn.kernels.links import Message
from matcha_gnn.typing import Repr

if TYPE_CHECKING:
    from matcha_gnn.graphs.stored.store import GraphStore

ENTRIES = 1 << 21
"""Entries of P in a block: 16 MB."""
LINKS = 1 << 18
"""Edges whose messages are computed at a time."""
OUT_BYTES = 8 << 20
"""Bytes of a product that are computed at a time."""

Rows = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]
"""Some rows of P: where each starts, from 0; columns; values."""


class StoredMatrix(Operator):
    """P or its transpose, from the files of a store.

    Args:
        store: the graph.
        flipped: the transpose.
    """

    def __init__(self, store: "GraphStore", flipped: bool = False) -> None:
        self.store, self.flipped = store, flipped and not store.symmetric

    @property
    def transposed(self) -> "StoredMatrix":
        """Pᵀ."""
        return StoredMatrix(self.store, not self.flipped)

    def __matmul__(self, h: Repr) -> Repr:
        """P h, for h [N] or [N, D] in memory."""
        columns = h[:, None] if h.dim() == 1 else h
        if self.flipped:
            out = torch.zeros_like(columns)
            for rows, entries in self.blocks():
                _scatter(entries, columns[rows], out)
        else:
            out = torch.empty_like(columns)
            for rows, block in self.products(columns):
                out[rows] = block
        return out[:, 0] if h.dim() == 1 else out

    def products(self, h: Repr) -> Iterator[tuple[slice, Repr]]:
        """Rows of P h [N, D], block by block, from the first to the last."""
        h = h.contiguous()
        most = max(1, OUT_BYTES // (h.element_size() * h.shape[1]))
        for rows, entries in self.blocks(most):
            yield rows, csr_rows(*entries, h)

    def neighbour_sums(self, values: Tensor) -> Tensor:
        """See `BaseGraph.neighbour_sums`."""
        total = torch.empty_like(values)
        given = values.cpu().numpy()
        for rows, (crow, col, _) in self.blocks():
            row = np.repeat(np.arange(rows.start, rows.stop), np.diff(crow))
            apart = (col != row).astype(given.dtype)
            shape = (len(crow) - 1, len(given))
            matrix = scipy.sparse.csr_array((apart, col, crow), shape=shape)
            total[rows] = torch.from_numpy(matrix @ given).to(total)
        return total

    def message_sums(self, message: Message, sent: Tensor, received: Tensor) -> Tensor:
        """See `BaseGraph.message_sums`."""
        sent, received = sent.contiguous(), received.T
        total = torch.zeros_like(received, memory_format=torch.contiguous_format)
        for rows, sender, receiver in self.links():
            sender, receiver = sender.to(sent.device), (receiver - rows.start).to(sent.device)
            messages = message(
                sent.index_select(0, sender).T.contiguous(),
                received[:, rows].index_select(1, receiver),
            )
            for of_class, found in zip(total[:, rows], messages, strict=True):
                of_class.index_add_(0, receiver, found)
        return total.T

    @property
    def reciprocal(self) -> bool:
        """Whether every edge has its reverse, as often."""
        if self.store.symmetric:
            return True
        return sum(imbalance(*ends) for _, *ends in self.links()) % 2**64 == 0

    def links(self) -> Iterator[tuple[slice, Tensor, Tensor]]:
        """Rows, and the senders and receivers of their incoming edges without self loops."""
        for rows, (crow, col, _) in self.blocks(entries=LINKS):
            row = np.repeat(np.arange(rows.start, rows.stop), np.diff(crow))
            apart = col != row
            yield rows, torch.from_numpy(col[apart].astype(np.int64)), torch.from_numpy(row[apart])

    def blocks(self, most: int = 1 << 20, entries: int = ENTRIES) -> Iterator[tuple[slice, Rows]]:
        """Rows, at most `most` at a time, and P in them; valid until the next block."""
        store = self.store
        for rows in row_ranges(store.indptr.array, entries, most):
            crow = np.array(store.indptr.rows(rows.start, rows.stop + 1))
            first, last = int(crow[0]), int(crow[-1])
            for array in (store.indices, store.values):
                array.ahead(last, last + ENTRIES)
            columns, values = store.indices.rows(first, last), store.values.rows(first, last)
            yield rows, (crow - first, columns, values)
            store.indptr.drop(rows.start, rows.stop)
            for array in (store.indices, store.values):
                array.drop(first, last)


def row_ranges(indptr: NDArray[np.int64], entries: int, most: int = 1 << 62) -> Iterator[slice]:
    """Ranges of at most `most` rows with at most `entries` entries, or of one row."""
    start, end = 0, len(indptr) - 1
    while start < end:
        stop = int(np.searchsorted(indptr, indptr[start] + entries, side="right")) - 1
        stop = min(max(stop, start + 1), start + most, end)
        yield slice(start, stop)
        start = stop


def _scatter(entries: Rows, values: Tensor, out: Tensor) -> None:
    """Add the transpose of some rows of P times values [n, D] to `out` [N, D]."""
    crow, col, weight = entries
    row = torch.repeat_interleave(torch.from_numpy(np.diff(crow)).to(out.device))
    scaled = values[row] * torch.from_numpy(weight).to(out)[:, None]
    out.index_add_(0, torch.from_numpy(col).to(out.device), scaled)
