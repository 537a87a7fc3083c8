"""Which of a graph's nodes a process holds, and how its sums become sums over all nodes.

In one process a part is everything, and nothing here costs anything. Ranks that share a graph have
a part of their own kind, given to the target graph, and the algorithms stay as they are: whatever
they add up over nodes goes through `total`.
"""

import numpy as np
import torch
from torch import Tensor

from matcha_gnn.typing import FloatArray


class Part:
    """All nodes.

    Attributes:
        is_first: adds what every process has and only one may add, such as a classifier's rows.
        start: nodes of the parts before this one.

    Example:
        >>> Part().total(np.ones(2), 3.0)
        [array([1., 1.]), array(3.)]
    """

    is_first: bool = True
    start: int = 0

    def total(self, *sums: FloatArray | float) -> list[FloatArray]:
        """Each of these sums over the nodes here, over all nodes; one exchange for all of them."""
        return [np.asarray(each) for each in sums]

    def count(self, num_nodes: int) -> int:
        """How many nodes there are in all, of which `num_nodes` are here."""
        return num_nodes

    def gather(self, rows: Tensor) -> Tensor:
        """The rows of all parts, one part after the other; for few rows."""
        return rows

    def rows(self, values: Tensor, numbers: Tensor) -> Tensor:
        """Rows of node values [N, …] at node numbers of the whole graph; for few numbers."""
        return values[numbers]

    def kth_lowest(self, values: Tensor, k: int) -> float:
        """The k-th lowest of all parts' values, k >= 1."""
        return float(values.kthvalue(k).values)

    def before(self, count: int) -> int:
        """The sum of the counts that the parts before this one have."""
        return 0


WHOLE = Part()


def tensor_total(part: Part, tensor: Tensor) -> Tensor:
    """`Part.total` of one tensor, where it lies and in its own precision."""
    if part is WHOLE:
        return tensor
    (total,) = part.total(tensor.detach().double().cpu().numpy())
    return torch.from_numpy(total).to(tensor)
