"""Sums over the nodes of each label, the same bits every time."""

import torch
from torch import Tensor

from matcha_gnn.kernels.devices import device_of


def sums_by_label(labels: Tensor, values: Tensor, classes: int) -> Tensor:
    """Σ of the rows of values [N, M] with each label, [C, M].

    Scattered additions on a GPU would change from run to run, and wait for each other where labels
    are few: there a product with ones and zeros takes the sums.

    Args:
        labels: [N].
        values: [N, M], where the labels are.
        classes: C.

    Example:
        >>> sums_by_label(torch.tensor([1, 0, 1]), torch.tensor([[1.0], [2.0], [4.0]]), 3)
        tensor([[2.],
                [5.],
                [0.]])
    """
    sums = values.new_zeros(classes, values.shape[1])
    if values.is_cpu:
        return sums.index_add_(0, labels, values)
    return by_products(labels, values, sums)


def by_products(labels: Tensor, values: Tensor, sums: Tensor) -> Tensor:
    """Add the sums to `sums`, on any device."""
    classes = torch.arange(len(sums), device=labels.device)[:, None]
    size = max(1, device_of(values).block_floats // len(sums))
    for some, rows in zip(torch.split(labels, size), torch.split(values, size), strict=True):
        sums += (classes == some).to(rows) @ rows
    return sums
