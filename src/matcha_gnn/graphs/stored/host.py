"""Hops in host memory for a graph on a GPU that has no room for them."""

import copy
from functools import partial
from typing import TYPE_CHECKING

import torch

from matcha_gnn.gamma.models import Backbone, FilterBackbone, LinearBackbone
from matcha_gnn.graphs.memory import Graph
from matcha_gnn.graphs.stored.streaming import HostHops
from matcha_gnn.graphs.stored.target import require_blocks
from matcha_gnn.kernels.devices import device_of

if TYPE_CHECKING:
    from matcha_gnn.gamma.methods import BaseMethod
    from matcha_gnn.gamma.strategies import Strategy

SHARE = 0.8
"""Share of the free memory of the GPU that hops may take by default."""
MOST_BLOCK = 256 << 20


def stack_bytes(model: "Backbone", graph: Graph) -> int:
    """Bytes of all hops, in the model's precision."""
    itemsize = model.gamma.element_size()
    return graph.num_nodes * (model.num_hops + 1) * model.head.in_features * itemsize


def room_on(device: torch.device) -> int:
    """Bytes of a GPU that hops may take."""
    free = device_of(device).free_bytes
    assert free is not None, "a device with memory of its own"
    return int(SHARE * free(device))


def with_room(graph: Graph, model: "Backbone", method: "BaseMethod", strategy: "Strategy") -> Graph:
    """The graph itself, or one whose hops stay on the host where a GPU has no room for them.

    Raises:
        IncompatibleError: there is no room, and the run needs all hops at once.
    """
    limit = room_on(graph.device)
    if not isinstance(model, LinearBackbone) or stack_bytes(model, graph) <= limit:
        return graph
    require_blocks(model, method, strategy)
    return hosted(graph, limit)


def hosted(graph: Graph, limit: int) -> Graph:
    """The same graph, whose hops are computed on the GPU and kept on the host.

    Args:
        graph: on the GPU.
        limit: bytes on the GPU for blocks of hops and for hop logits.
    """
    copied = copy.copy(graph)
    copied.__dict__["make_hops"] = partial(host_hops, graph=graph, limit=limit)
    return copied


@torch.no_grad()
def host_hops(model: "FilterBackbone", graph: Graph, limit: int) -> HostHops:
    """H_0 … H_K, each computed on the GPU and copied to pinned host memory.

    Args:
        model: a filter, in evaluation mode.
        graph: on the GPU, or on the CPU for tests.
        limit: see `hosted`.
    """
    h = model.encode(model.accept(graph.x))
    pinned = device_of(h).streams
    stack = torch.empty(len(h), model.num_hops + 1, h.shape[1], dtype=h.dtype, pin_memory=pinned)
    for k in range(model.num_hops + 1):
        h = graph.adjacency.to(h.dtype) @ h if k else h
        stack[:, k] = h.cpu()
    block = min(MOST_BLOCK, max(1, limit // 4))
    return HostHops(stack, None, block, limit // 2, h.device)
