"""The graph with virtual neighbours on it, which GraphPatcher invents.

A virtual node sends to its centre and receives nothing, so it has degree 1 (its own self loop)
and keeps its encoding v through every hop. A centre i of degree d_i that has p of them gets the
degree d_i + p, and the hops of the real nodes follow without building the larger graph:
H_{k+1}[i] = (P' H_k)[i] + Σ_q v_iq / √(d_i + p), with P' the real rows and columns of the
normalised adjacency at the raised degrees. Models that are no filter run on the larger graph.
"""

from collections.abc import Sequence

import numpy as np
import scipy.sparse
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from matcha_gnn.graphs.memory import Graph
from matcha_gnn.kernels import Adjacency, filter_hops
from matcha_gnn.kernels.sparse import csr_of
from matcha_gnn.typing import HopStack, HopWeights, Repr


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
