"""The shard of a graph's nodes that a process holds, and sums over all shards.

In one process the shard is the whole graph, and nothing here costs anything. The ranks of a cluster
use a subclass, and the algorithms do not change: all their sums over nodes go through `total`.
"""

import numpy as np
import torch
from torch import Tensor

from matcha_gnn.typing import FloatArray


class Shard:
    """All nodes.

    Attributes:
        is_first: whether this shard adds what must be added once, such as a classifier's rows.
        start: number of nodes in the shards before this one.

    Example:
        >>> Shard().total(np.ones(2), 3.0)
        [array([1., 1.]), array(3.)]
    """

    is_first: bool = True
    start: int = 0

    def total(self, *sums: FloatArray | float) -> list[FloatArray]:
        """Sums over all shards of sums over this shard; one exchange for all of them."""
        return [np.asarray(each) for each in sums]

    def count(self, num_nodes: int) -> int:
        """The number of nodes of all shards, of which this one has `num_nodes`."""
        return num_nodes

    def gather(self, rows: Tensor) -> Tensor:
        """The rows of all shards, one shard after the other; for few rows."""
        return rows

    def rows(self, values: Tensor, numbers: Tensor) -> Tensor:
        """Rows of node values [N, …] at node numbers of the whole graph; for few numbers."""
        return values[numbers]

    def kth_lowest(self, values: Tensor, k: int) -> float:
        """The k-th lowest of all shards' values, k >= 1."""
        return float(values.kthvalue(k).values)

    def before(self, count: int) -> int:
        """The sum of the counts of the shards before this one."""
        return 0


WHOLE = Shard()


def tensor_total(shard: Shard, tensor: Tensor) -> Tensor:
    """`Shard.total` of one tensor, on its device and in its precision."""
    if shard is WHOLE:
        return tensor
    (total,) = shard.total(tensor.detach().double().cpu().numpy())
    return torch.from_numpy(total).to(tensor)
