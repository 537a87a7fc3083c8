"""LAME: predictions are smoothed over similar nodes; no parameter changes."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from matcha_gnn.errors import as_whole, require_number
from matcha_gnn.gamma.methods.base import BaseMethod, Prediction, Prepared, State, View
from matcha_gnn.kernels.sparse import csr_tensor
from matcha_gnn.typing import Probs, Repr

# Queries at a time, and similarities at a time: what stays in a CPU's cache, what fills a GPU.
_CPU_BLOCK, _GPU_BLOCK = (256, 1 << 22), (1 << 14, 1 << 26)


@dataclass(frozen=True)
class LAME(BaseMethod):
    """Laplacian adjusted maximum-likelihood estimation (Boudiaf et al., CVPR 2022).

    With p the source model's prediction and W the graph that links each node to its `k` nearest
    others in cosine similarity of z, the prediction minimises over rows y_i of class probabilities

        E(Y) = Σ_i KL(y_i ‖ p_i) − scale/2 Σ_ij W_ij ⟨y_i, y_j⟩

    by the fixed point Y ← softmax(log p + scale · W Y), started at p.

    Deviations: all nodes are one batch (the dense N by N affinity of the released code needs
    random batches, on whose draw the result depends; here W is sparse and neighbours are searched
    by blocks). The energy has the factor ½ with which the update is a descent step wherever W is
    symmetric and positive semi-definite; the paper leaves it out.

    With `restart=False`, the method reuses W of the first round. This skips the search, by far the
    largest cost, but the neighbours are then those of the first γ.

    Args:
        k: neighbours of a node, the node itself not counted; at most N − 1 are used.
        iterations: limit on updates.
        tolerance: stop when the energy changes by less than this, relative to its size.
        scale: weight of the second term; 0 gives the source model's prediction.

    Shapes:
        view.z [N, D], view.logits [N, C] → probs [N, C]

    Example:
        >>> import matcha_gnn as mg
        >>> graph = mg.datasets.csbm(num_nodes=100, num_features=8, seed=0)
        >>> mg.predict(mg.GPRGNN(8, 2), graph, LAME(k=3)).probs.shape
        torch.Size([100, 2])
    """

    name = "lame"
    needs_hops = False

    k: int = 5
    iterations: int = 100
    tolerance: float = 1e-8
    scale: float = 1.0

    def __post_init__(self) -> None:
        as_whole("k", self.k, least=1)
        as_whole("iterations", self.iterations, least=0)
        require_number("tolerance", self.tolerance, least=0)
        require_number("scale", self.scale, least=0)

    def start(self, view: View, prepared: Prepared) -> State:
        """No neighbours yet."""
        return None

    def predict(self, view: View, state: State) -> tuple[Prediction, State]:
        """The fixed point at the current γ; the state is the neighbour graph."""
        affinity = self._affinity(view.z) if state is None else state
        log_probs = view.logits.log_softmax(1)
        return Prediction(self._fixed_point(log_probs, affinity)), affinity

    def _affinity(self, z: Repr) -> Tensor:
        """W times `scale` as a sparse matrix [N, N]."""
        neighbours = neighbour_table(z, self.k).cpu().numpy()
        nodes, k = neighbours.shape
        weights = np.full(nodes * k, self.scale)
        starts = np.arange(nodes + 1) * k
        matrix = scipy.sparse.csr_array((weights, neighbours.reshape(-1), starts), (nodes, nodes))
        matrix.sort_indices()
        return csr_tensor(matrix, z.dtype).to(z.device)

    def _fixed_point(self, log_probs: Tensor, affinity: Tensor) -> Probs:
        log_y, y = log_probs, log_probs.exp()
        last = math.nan
        for _ in range(self.iterations):
            pull: Tensor = affinity @ y
            energy = float((y * (log_y - log_probs - pull / 2)).sum(dtype=torch.float64))
            if abs(energy - last) <= self.tolerance * abs(last):
                break
            last = energy
            log_y = (log_probs + pull).log_softmax(1)
            y = log_y.exp()
        return y / y.sum(1, keepdim=True)


def neighbour_table(z: Repr, k: int) -> Tensor:
    """The `k` other nodes most similar to each node by cosine, in no order, [N, min(k, N − 1)]."""
    unit, k = F.normalize(z), min(k, len(z) - 1)
    table = torch.empty(len(z), k, dtype=torch.long, device=z.device)
    if k:
        for block, _, neighbours in nearest(unit, unit, k, apart=True):
            table[block] = neighbours
    return table


def nearest(
    queries: Repr, rows: Repr, k: int, *, apart: bool = False
) -> Iterator[tuple[slice, Tensor, Tensor]]:
    """For each query the `k` rows of largest inner product, in no order, by blocks of queries.

    Only a block of similarities exists at any time, a few million. The exact search of faiss is
    not used: it was measured no faster at 5,000 rows and 2 to 4 times slower at 100,000.

    Args:
        queries: [N, D].
        rows: [Q, D].
        k: at most Q, less one if `apart`.
        apart: queries are rows, and no query finds the row of its own number.

    Yields:
        The queries of the block as a slice, their similarities [q, k] and row numbers [q, k].
    """
    most, limit = _CPU_BLOCK if rows.is_cpu else _GPU_BLOCK
    size = min(len(queries), most, max(1, limit // len(rows)))
    buffer = rows.new_empty(size, len(rows))
    for start in range(0, len(queries), size):
        block = slice(start, min(start + size, len(queries)))
        similarity = torch.mm(queries[block], rows.T, out=buffer[: block.stop - start])
        if apart:
            similarity.diagonal(start).fill_(-math.inf)
        yield block, *_largest(similarity, k)


def _largest(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """`values.topk(k)` for rows of any length, unsorted.

    The k largest of a row are in the k groups of largest maximum. Maxima of groups vectorise
    where selection does not, so all but k groups are discarded before the selection.
    """
    length = values.shape[1]
    size = _group_size(length, k)
    if size == 1:
        top = values.topk(k, sorted=False)
        return top.values, top.indices
    count = length // size
    # Group g holds columns g, g + count, g + 2·count, …; the last few columns are in no group.
    grouped = values[:, : count * size].reshape(-1, size, count)
    groups = grouped.amax(1).topk(k, sorted=False).indices[:, None]
    members = grouped.gather(2, groups.expand(-1, size, -1)).flatten(1)
    column = torch.arange(length, device=values.device)
    inside = (groups + count * column[:size, None]).flatten(1)
    rest = column[count * size :].expand(len(values), -1)
    top = torch.cat([members, values[:, count * size :]], 1).topk(k, sorted=False)
    return top.values, torch.cat([inside, rest], 1).gather(1, top.indices)


def _group_size(length: int, k: int) -> int:
    # torch selects fastest from 64 k values or more; beyond 12 the maxima cost what is saved.
    size = min(12, max(4, length // (64 * k)))
    return size if 2 * k * size <= length else 1
