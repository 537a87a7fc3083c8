"""Softmax over few classes of many nodes."""

from torch import Tensor

from matcha_gnn.typing import Probs

MANY_CLASSES = 16
"""From here on a CPU takes softmaxes along rows as fast: a row fills its registers."""


def class_softmax(logits: Tensor) -> Probs:
    """Softmax over the classes of logits [N, C], stored class by class where these are few.

    A CPU then takes it down the long side, several times faster than along short rows.

    Example:
        >>> import torch
        >>> class_softmax(torch.tensor([[0.0, 0.0], [9.0, 0.0]])).round(decimals=2)
        tensor([[0.5000, 0.5000],
                [1.0000, 0.0000]])
    """
    if logits.shape[1] >= MANY_CLASSES:
        return logits.softmax(1)
    return logits.T.contiguous().softmax(0).T


def class_log_softmax(logits: Tensor) -> Tensor:
    """The logarithm of `class_softmax`, [N, C]."""
    if logits.shape[1] >= MANY_CLASSES:
        return logits.log_softmax(1)
    return logits.T.contiguous().log_softmax(0).T
