"""Array files in the layout of Syn-Cora: CSR arrays `adj_*` and `attr_*`, and `labels`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
import torch
from numpy.typing import NDArray
from torch import Tensor

from matcha_gnn.kernels.sparse import csr_tensor

Arrays = Mapping[str, NDArray[Any]]


def read_arrays(path: Path) -> Arrays:
    """Every array of an `.npz` file; pickles are refused."""
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def edges_from(arrays: Arrays) -> Tensor:
    """`edge_index` [2, E] of the adjacency: entry (i, j) is an edge from i to j."""
    indptr, receivers = arrays["adj_indptr"], arrays["adj_indices"].astype(np.int64)
    senders = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    return torch.from_numpy(np.stack([senders, receivers]))


def features_from(arrays: Arrays) -> Tensor:
    """The attributes as a sparse CSR tensor in float32, [N, F]."""
    csr = (arrays["attr_data"], arrays["attr_indices"].astype(np.int64), arrays["attr_indptr"])
    matrix = scipy.sparse.csr_array(csr, shape=tuple(arrays["attr_shape"].tolist()))
    matrix.sum_duplicates()
    return csr_tensor(matrix, torch.float32)


def scipy_matrix(x: Tensor) -> scipy.sparse.csr_array:
    """A sparse CSR tensor as a SciPy matrix that shares its memory, [N, F]."""
    csr = tuple(tensor.numpy() for tensor in (x.values(), x.col_indices(), x.crow_indices()))
    return scipy.sparse.csr_array(csr, shape=(x.shape[0], x.shape[1]))
