"""GraphPatcher's patcher, and the graph with virtual neighbours on it.

A virtual node sends to its centre and receives nothing, so it has degree 1 (its own self loop)
and keeps its encoding v through every hop. A centre i of degree d_i that has p of them gets the
degree d_i + p, and the hops of the real nodes follow without building the larger graph:
H_{k+1}[i] = (P' H_k)[i] + Σ_q v_iq / √(d_i + p), with P' the real rows and columns of the
normalised adjacency at the raised degrees. Models that are no filter run on the larger graph.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from matcha_gnn.gamma.models import FilterBackbone
from matcha_gnn.graphs.memory import Graph
from matcha_gnn.kernels import Adjacency, filter_hops
from matcha_gnn.kernels.sparse import csr_of, csr_tensor
from matcha_gnn.typing import HopStack, HopWeights, Repr

DROPOUT = 0.2
ROWS_AT_ONCE = 4096
"""Rows of features F wide that exist at the same time when a whole graph is patched."""


class Patcher(nn.Module):
    """Weights of the generator: two mean-aggregating graph layers, then an MLP of three layers.

    The constructor draws nothing: call `reset_parameters`, or load a state.

    Args:
        num_features: F.
        width: of every hidden layer.
    """

    def __init__(self, num_features: int, width: int) -> None:
        super().__init__()
        self.width = width
        with torch.device("meta"):
            self.first = nn.Linear(num_features, width)
            self.second = nn.Linear(width, width)
            self.merge = nn.Linear(width + num_features, width)
            self.middle = nn.Linear(width, width)
            self.last = nn.Linear(width, num_features, bias=False)
        self.to_empty(device="cpu")

    def reset_parameters(self) -> None:
        """Xavier weights from torch's global generator, and no bias."""
        for layer in (self.first, self.second, self.merge, self.middle, self.last):
            nn.init.xavier_uniform_(layer.weight)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)


class Patching:
    """Generates virtual neighbours for some nodes of a graph, one for each of them at every call.

    Only what the graph layers reach from the centres is computed. A virtual node counts as a
    neighbour of its centre for the ones generated after it, without a gradient to its features.

    Args:
        patcher: the generator.
        x: features, [N, F], dense or CSR.
        sums: `neighbour_sums` of the graph.
        centres: nodes to patch, ascending, [B].
    """

    def __init__(
        self, patcher: Patcher, x: Tensor, sums: scipy.sparse.csr_array, centres: Tensor
    ) -> None:
        self.patcher, self.count = patcher, 0
        rows = centres.cpu().numpy()
        near = np.unique(sums[rows].indices)
        far = np.unique(sums[near].indices)
        self._into_centres, self._centre_weight = _sliced(sums, rows, near, x)
        into_near, self._near_weight = _sliced(sums, near, far, x)
        self._place = torch.from_numpy(np.searchsorted(near, rows)).to(x.device)
        self._near = into_near @ _times(x, far, patcher.first.weight)
        self._own = _times(x, rows, patcher.merge.weight[:, patcher.width :])
        self._sent = torch.zeros_like(self._own)
        self._sent_hidden = torch.zeros_like(self._own)

    def __call__(self) -> Tensor:
        """The generator's last hidden layer for the next patch, [B, width].

        `patcher.last` maps it to features [B, F], which may not fit memory for a whole graph.
        """
        patcher, known = self.patcher, float(self.count)
        received = self._near.index_add(0, self._place, self._sent)
        weight = self._near_weight.index_add(
            0, self._place, torch.full_like(self._centre_weight, known)
        )
        near = F.relu(received / weight + patcher.first.bias)
        gathered = (self._into_centres @ near + self._sent_hidden) / (self._centre_weight + known)
        from_graph = F.relu(patcher.second(gathered))
        merge = patcher.merge
        hidden = F.linear(from_graph, merge.weight[:, : patcher.width], merge.bias) + self._own
        hidden = F.dropout(F.relu(hidden), DROPOUT, patcher.training)
        hidden = F.dropout(F.relu(patcher.middle(hidden)), DROPOUT, patcher.training)
        self._add(hidden.detach())
        return hidden

    def _add(self, hidden: Tensor) -> None:
        # (hidden · lastᵀ) · firstᵀ with the small product first: no features F wide are needed.
        through = self.patcher.first.weight @ self.patcher.last.weight.detach()
        sent = F.linear(hidden, through)
        self._sent = self._sent + sent
        self._sent_hidden = self._sent_hidden + F.relu(sent + self.patcher.first.bias)
        self.count += 1


def neighbour_sums(graph: Graph) -> scipy.sparse.csr_array:
    """A + I without self loops of A: row i adds up node i and what it receives, [N, N]."""
    sender, receiver = graph.edge_index.cpu().numpy()
    given = graph.edge_weight
    weight = np.ones(len(sender)) if given is None else given.detach().cpu().numpy()
    apart = sender != receiver
    shape = (graph.num_nodes, graph.num_nodes)
    edges = (weight[apart], (receiver[apart], sender[apart]))
    received = scipy.sparse.coo_array(edges, shape=shape).tocsr()
    return scipy.sparse.csr_array(received + scipy.sparse.eye_array(graph.num_nodes))


def encode_virtual(model: FilterBackbone, patcher: Patcher, hidden: Tensor) -> Repr:
    """Encodings of the virtual nodes that `Patching` gave hidden layers [B, width] for: [B, D]."""
    blocks = torch.split(hidden, ROWS_AT_ONCE)
    return torch.cat([model.encode(patcher.last(block)) for block in blocks])


def patched_adjacency(
    graph: Graph, centres: Tensor, patches: int, dtype: torch.dtype
) -> tuple[Adjacency, Tensor]:
    """P' [N, N], and by which factor 1/√(d_i + patches) node i receives each virtual one, [N].

    The factors are zero for nodes that are none of the centres, [B], ascending.
    """
    nodes, edges, weight = graph.num_nodes, graph.edge_index, graph.edge_weight
    # One sender of weight p stands for p senders of weight 1: the degrees are the same.
    senders = torch.arange(nodes, nodes + len(centres), device=edges.device)
    ones = torch.ones(edges.shape[1], dtype=dtype, device=edges.device)
    sent = torch.full_like(centres, patches, dtype=dtype)
    weights = torch.cat([ones if weight is None else weight, sent])
    edges = torch.cat([edges, torch.stack([senders, centres])], 1)
    whole = Adjacency.normalised(edges, nodes + len(centres), weights, dtype).matrix
    starts = whole.crow_indices()[: nodes + 1]
    column, value = whole.col_indices()[: starts[-1]], whole.values()[: starts[-1]]
    real = column < nodes
    share = value.new_zeros(nodes)
    share[centres] = value[~real] / patches
    starts = F.pad(real.cumsum(0), (1, 0))[starts].to(column.dtype)
    return Adjacency(csr_of(starts, column[real], value[real], (nodes, nodes))), share


def propagate_patched(adjacency: Adjacency, h: Repr, pushed: Repr, num_hops: int) -> HopStack:
    """Hops of the real nodes of a patched graph, [N, K+1, D]: H_{k+1} = P' H_k + pushed [N, D]."""
    stack = h.new_empty(h.shape[0], num_hops + 1, h.shape[1])
    stack[:, 0] = h
    for k in range(1, num_hops + 1):
        h = adjacency @ h + pushed
        stack[:, k] = h
    return stack


def filter_patched(adjacency: Adjacency, h: Repr, pushed: Repr, hop_weights: HopWeights) -> Repr:
    """Σ_k c_k H_k of `propagate_patched`, differentiable in `pushed`, [N, D]; needs K ≥ 1.

    H_k = P'^k h + Σ_{m<k} P'^m pushed, so the mix is one polynomial of h and one of `pushed`,
    whose coefficient of P'^m is Σ_{k>m} c_k.
    """
    later = hop_weights.flip(0).cumsum(0).flip(0)[1:]
    return filter_hops(adjacency, h, hop_weights) + filter_hops(adjacency, pushed, later)


def patched_graph(graph: Graph, centres: Tensor, virtual: Sequence[Tensor]) -> Graph:
    """The graph with virtual nodes after its own, patch by patch one for each centre [B].

    It is differentiable in their features, [B, F] for each patch.
    """
    own = graph.x if graph.x.layout == torch.strided else graph.x.to_dense()
    x = torch.cat([own.to(virtual[0].dtype), *virtual])
    senders = torch.arange(graph.num_nodes, len(x), device=centres.device)
    edges = torch.stack([senders, centres.repeat(len(virtual))])
    weight = graph.edge_weight
    if weight is not None:
        weight = torch.cat([weight, weight.new_ones(len(senders))])
    extras = graph.extras.with_new_nodes("graphpatcher adds nodes and edges that have none")
    return Graph(x, torch.cat([graph.edge_index, edges], 1), weight, extras)


def _sliced(
    sums: scipy.sparse.csr_array, rows: Any, columns: Any, like: Tensor
) -> tuple[Tensor, Tensor]:
    """The chosen rows and columns as a tensor, and each row's weight, [rows, 1]."""
    chosen = scipy.sparse.csr_array(sums[rows][:, columns])
    chosen.sort_indices()
    weight = torch.from_numpy(np.asarray(chosen.sum(1))).to(like.device, like.dtype)
    return csr_tensor(chosen, like.dtype).to(like.device), weight[:, None]


def _times(x: Tensor, rows: Any, weight: Tensor) -> Tensor:
    """x[rows] · weightᵀ, [rows, width], a few thousand rows at a time."""
    index = torch.from_numpy(rows).to(x.device)
    if x.layout == torch.strided:
        return torch.cat([F.linear(x[block], weight) for block in torch.split(index, ROWS_AT_ONCE)])
    product: Tensor = torch.sparse.mm(x, weight.T)
    return product[index]
