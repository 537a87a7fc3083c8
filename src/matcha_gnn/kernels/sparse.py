"""Sparse CSR tensors: made, and handed to SciPy and back."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import scipy.sparse
import torch
from torch import Tensor


@contextmanager
def no_beta_warning() -> Iterator[None]:
    """Hide torch's warning that sparse tensors are in beta; users cannot act on it."""
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
    tensors = (matrix.values(), matrix.col_indices(), matrix.crow_indices())
    rows, columns = matrix.shape
    return scipy.sparse.csr_array(tuple(t.cpu().numpy() for t in tensors), shape=(rows, columns))


def row_starts(row: Tensor, num_rows: int) -> Tensor:
    """Where each row starts among entries that are sorted by row, [num_rows + 1].

    Example:
        >>> row_starts(torch.tensor([0, 0, 2]), 3)
        tensor([0, 2, 2, 3])
    """
    counts = torch.bincount(row, minlength=num_rows)
    return torch.cat([counts.new_zeros(1), counts.cumsum(0)])


def row_blocks(crow: Tensor, step: int) -> Iterator[tuple[slice, slice, Tensor]]:
    """Ranges of rows, their entries, and where each row starts among these.

    Args:
        crow: where each row starts, [N+1].
        step: rows in a block.

    Example:
        >>> for rows, entries, starts in row_blocks(torch.tensor([0, 2, 2, 3]), 2):
        ...     print(rows, entries, starts)
        slice(0, 2, None) slice(0, 2, None) tensor([0, 2, 2])
        slice(2, 3, None) slice(2, 3, None) tensor([0, 1])
    """
    num_rows = len(crow) - 1
    ends = [*crow[:-1:step].tolist(), int(crow[-1])]
    for first, begin, end in zip(range(0, num_rows, step), ends, ends[1:], strict=False):
        stop = min(first + step, num_rows)
        starts = crow[first : stop + 1]
        yield slice(first, stop), slice(begin, end), starts - begin if begin else starts


def csr_of(crow: Tensor, col: Tensor, values: Tensor, size: tuple[int, int]) -> Tensor:
    """A sparse CSR tensor from its parts, which are not checked.

    Positions of one type: cuSPARSE reads row starts and columns alike, whatever they are.
    """
    with no_beta_warning():
        return torch.sparse_csr_tensor(
            crow.to(col.dtype), col, values, size, check_invariants=False
        )
