"""Adam on numbers that are too many to be held in cache."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.optim.adam import adam

from matcha_gnn.kernels.propagate import empty

ADAM_EPSILON = 1e-8
BLOCK_ENTRIES = 1 << 19
"""Numbers of a block, in cache from gradient to product."""


class BlockedAdam:
    """Adam on numbers [N, F], in place and by blocks of rows; its moments take twice their memory.

    Attributes:
        size: rows of a block.
    """

    def __init__(self, like: Tensor, lr: float) -> None:
        self.lr, self.steps = lr, 0
        self.size = min(len(like), max(1, BLOCK_ENTRIES // like.shape[1]))
        self.mean, self.square = (empty(like.shape, like).zero_() for _ in range(2))

    def blocks(self) -> Iterator[slice]:
        """The rows of each block; a step ends with the last."""
        for start in range(0, len(self.mean), self.size):
            yield slice(start, min(start + self.size, len(self.mean)))
        self.steps += 1

    def move(self, rows: slice, values: Tensor, gradient: Tensor) -> None:
        """Take a block of the values one step down."""
        # The function under `torch.optim.Adam`: it works on the buffers given, in one pass.
        mean, square = self.mean[rows], self.square[rows]
        steps = torch.full((), float(self.steps), device=values.device)
        rates: dict[str, Any] = {"lr": self.lr, "beta1": 0.9, "beta2": 0.999, "eps": ADAM_EPSILON}
        off: dict[str, Any] = {"amsgrad": False, "weight_decay": 0.0, "maximize": False}
        adam([values], [gradient], [mean], [square], [], [steps], fused=True, **rates, **off)
