"""Training and test nodes, split by their features."""

import hashlib
from itertools import pairwise

import scipy.sparse
import torch
from torch import Tensor

from matcha_gnn.datasets.arrays import scipy_matrix


def split_by_features(x: Tensor, y: Tensor, every: int = 4) -> tuple[Tensor, Tensor]:
    """Masks of training and test nodes, by feature row instead of node number.

    Graphs that assign the same feature rows to other nodes would leak training labels into the
    target if the split went by node number. Here the distinct rows of each class are ordered by a
    fixed hash and every fourth is a training row. Nodes with equal rows get the same mask.

    Args:
        x: features, dense or sparse [N, F].
        y: labels, [N].
        every: one distinct row in so many is a training row.

    Returns:
        `train_mask` and `test_mask`, bool [N], of which each node is in exactly one.

    Example:
        >>> x = torch.eye(8).repeat(2, 1)
        >>> train, test = split_by_features(x, torch.zeros(16, dtype=torch.long))
        >>> int(train.sum()), bool((train[:8] == train[8:]).all()), bool((train ^ test).all())
        (4, True, True)
    """
    names = row_hashes(x)
    home: dict[str, int] = {}
    for name, label in zip(names, y.tolist(), strict=True):
        # A row that occurs in two classes belongs to the lower one.
        home[name] = min(label, home.get(name, label))
    train = {
        name
        for label in set(home.values())
        for name in sorted(n for n, own in home.items() if own == label)[::every]
    }
    mask = torch.tensor([name in train for name in names])
    return mask, ~mask


def row_hashes(x: Tensor) -> list[str]:
    """A hash of each feature row, equal for equal rows, dense or sparse, on every machine."""
    sparse = x.layout == torch.sparse_csr
    matrix = scipy_matrix(x).copy() if sparse else scipy.sparse.csr_array(x.numpy())
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    columns, values = matrix.indices.astype("<i8"), matrix.data.astype("<f4")
    names = []
    for start, stop in pairwise(matrix.indptr):
        row = columns[start:stop].tobytes() + values[start:stop].tobytes()
        names.append(hashlib.blake2b(row, digest_size=16).hexdigest())
    return names
