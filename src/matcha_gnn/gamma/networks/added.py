"""Neutral hop weights on the representation of a network that has none of its own."""

import torch
from torch import nn
from typing_extensions import override

from matcha_gnn.errors import IncompatibleError, as_whole
from matcha_gnn.gamma.models.base import Backbone
from matcha_gnn.gamma.models.linear import LinearBackbone
from matcha_gnn.gamma.networks.heads import find_head
from matcha_gnn.gamma.networks.sites import require_module, require_path
from matcha_gnn.gamma.networks.wrap import Foreign
from matcha_gnn.graphs.memory import Graph
from matcha_gnn.kernels import filter_hops, mix, propagate
from matcha_gnn.network.network import ModuleNetwork, Network
from matcha_gnn.typing import HopStack, Repr


class AddedHops(Foreign):
    """Z' = Σ_k γ_k P^k Z with γ = (1, 0, …, 0) at first; see `add_hops`.

    Before a head that is not linear the sums over hops do not give every loss: autograd does, on
    hops that are kept all the same.
    """

    def __init__(self, net: nn.Module, head: str | None, num_hops: int) -> None:
        super().__init__(net, head)
        like = next((p for p in self.net.parameters() if p.is_floating_point()), torch.zeros(()))
        self.gamma = nn.Parameter(torch.eye(1, as_whole("K", num_hops, least=1) + 1)[0].to(like))

    @torch.no_grad()
    @override
    def constants(self, graph: Graph) -> HopStack | None:
        return self.added_hops(graph)

    def representation(self, graph: Graph, constants: HopStack | None = None) -> Repr:
        """Z' with gradients to γ and, without `constants`, to the network's parameters, [N, D]."""
        if constants is not None:
            return mix(constants, self.gamma)
        return filter_hops(graph.adjacency, self.seen(graph), self.gamma)

    def added_hops(self, graph: Graph) -> HopStack:
        """Z and K hops from there, [N, K+1, D]."""
        return propagate(graph.adjacency, self.seen(graph), len(self.gamma) - 1)


class LinearAddedHops(AddedHops, LinearBackbone):
    """The same before a linear head, where the sums over hops give every loss."""

    def __init__(self, net: nn.Module, head: str | None, num_hops: int) -> None:
        super().__init__(net, head, num_hops)
        self.num_hops = len(self.gamma) - 1

    @override
    def constants(self, graph: Graph) -> None:
        return None

    @override
    def stack(self, graph: Graph) -> HopStack:
        return self.added_hops(graph)


HOPS = 2
"""Hops that are put on the output of a plain network."""


def add_hops(
    net: nn.Module,
    head: str | None = None,
    K: int = 2,  # noqa: N803 (the field's name for it)
) -> AddedHops:
    """Give a trained network without hop weights (GCN, GraphSAGE, GAT) neutral ones to adapt.

    What enters the head becomes Z' = Σ_k γ_k P^k Z with P the normalised adjacency with self
    loops and γ = (1, 0, …, 0): until it is adapted, the model answers as the network does. The
    network runs once; rounds need the sums of the hops alone.

    The hops lie behind the network's own aggregation. They can smooth further, sharpen (a
    negative γ_1 subtracts what neighbours have in common), and shift weight between the two;
    they cannot take back a mixture that its layers have made. paper/docs/added-hops.md has
    numbers.

    Args:
        net: any module that takes `x`, `edge_index` and further fields of a `Data` by name
            (`edge_weight`, `edge_attr`, `pos`, …), or a `Data`.
        head: path of the classifying layer, the hops go before it. None: on the output, as for
            networks whose last layer is a convolution.
        K: hops to add.

    Example:
        >>> from torch_geometric.nn import GCN
        >>> model = add_hops(GCN(8, 16, num_layers=2, out_channels=3))
        >>> model.gamma.tolist()
        [1.0, 0.0, 0.0]
    """
    require_module(net)
    require_path("head", head)
    linear = isinstance(find_head(net, head).layer, nn.Linear)
    return LinearAddedHops(net, head, K) if linear else AddedHops(net, head, K)


def as_backbone(network: Network) -> Backbone:
    """A network with γ as it is; another module with neutral hop weights on its output.

    Args:
        network: a private copy.

    Raises:
        IncompatibleError: there is no module, only probabilities.
    """
    if isinstance(network, Backbone):
        return network
    if not isinstance(network, ModuleNetwork):
        raise IncompatibleError(
            f"model: {network.name} has no hop weights to move; model(graph) gives its answer"
        )
    added = LinearAddedHops(network.net, None, HOPS)
    added.source, added.batches = network.source, network.batches
    added.expect(network.classes)
    return added
