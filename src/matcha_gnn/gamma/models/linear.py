"""Backbones that are linear in cached hops, and among them the filters of an encoder."""

import abc
from collections.abc import Mapping
from typing import Any, final

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812
from typing_extensions import override

from matcha_gnn.evidence.shift_kinds import class_statistics
from matcha_gnn.evidence.summarising import measured_on
from matcha_gnn.gamma.hops import Hops
from matcha_gnn.gamma.kernels.edge_weights import filter_hops
from matcha_gnn.gamma.models.base import Backbone
from matcha_gnn.graphs.memory import Graph
from matcha_gnn.kernels import propagate
from matcha_gnn.network.network import evaluating
from matcha_gnn.typing import HopStack, HopWeights, Repr


class LinearBackbone(Backbone):
    """Z = Σ_k c_k(γ) H_k with hops that do not depend on γ, so adaptation needs their sums alone.

    A subclass gives `stack`, and may override `hop_weights` where c is not γ itself.
    """

    @abc.abstractmethod
    def stack(self, graph: Graph) -> HopStack:
        """H_0 … H_K of a checked graph, with gradients to what decides them, [N, K+1, D]."""

    def hop_weights(self, gamma: Tensor) -> HopWeights:
        """c(γ), the weight of each hop, [K+1]; differentiable in γ."""
        return gamma

    @property
    def gamma_is_hop_weights(self) -> bool:
        """Whether γ are the hop weights themselves, so that any weights can be reached."""
        return type(self).hop_weights is LinearBackbone.hop_weights

    def gamma_gradient(self, gamma: Tensor, hop_weight_gradient: Tensor) -> Tensor:
        """Carry a gradient in c back to γ; a subclass with its own `hop_weights` needs its own."""
        return hop_weight_gradient.to(gamma)

    def representation(self, graph: Graph, constants: Any = None) -> Repr:
        """Z with gradients to every parameter, [N, D]."""
        # As a product of [N, D, K+1] in one piece, which rounds as it was recorded.
        hops = torch.stack([*self.stack(graph).unbind(1)], -1)
        return hops @ self.hop_weights(self.gamma)

    @override
    def _hop_tensors(self) -> list[Tensor]:
        return super()._hop_tensors()[:-1]


class FilterBackbone(LinearBackbone):
    """Z = Σ_k c_k(γ) P^k encode(X): a polynomial filter of what an encoder makes of each node.

    A subclass gives `encode`. Methods have fast ways for filters, which rely on all of the model
    being said by `encode` and `hop_weights`: `stack` and `representation` cannot be overridden.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name in ("stack", "representation"):
            if getattr(cls, name) is not getattr(FilterBackbone, name):
                raise TypeError(
                    f"{cls.__name__} overrides {name!r} of FilterBackbone: its hops would be no "
                    "powers of P; derive it from LinearBackbone or Backbone"
                )

    @abc.abstractmethod
    def encode(self, x: Tensor) -> Repr:
        """H_0, what the model makes of nodes by themselves: [N, F] to [N, D]."""

    @final
    def stack(self, graph: Graph) -> HopStack:
        """H_0 … H_K of a checked graph, [N, K+1, D]."""
        return propagate(graph.adjacency, self.encode(self.accept(graph.x)), self.num_hops)

    @final
    def mixed_hops(self, graph: Graph) -> Hops:
        """Z as the only hop, in the memory of two: no hop is kept."""
        with torch.no_grad(), evaluating(self):
            return Hops(self.representation(graph)[:, None], mixed=True)

    @final
    def representation(self, graph: Graph, constants: Any = None) -> Repr:
        """Z with gradients to every parameter, [N, D]."""
        h0 = self.encode(self.accept(graph.x))
        return filter_hops(graph, h0, self.hop_weights(self.gamma))

    def node_logits(self, graph: Graph) -> Tensor:
        """What is known of nodes by themselves, no edge seen: H_0 Wᵀ, [N, C]."""
        return F.linear(self.encode(self.accept(graph.x)), self.head.weight)

    @torch.no_grad()
    def statistics(
        self, graph: Graph, labels: Tensor, trained: Tensor, held_out: Tensor, classes: int
    ) -> Mapping[str, Tensor]:
        """What `SURE` needs: the covariance of the node-only logits within classes, [C, C]."""
        measured, _ = measured_on(labels, trained, held_out, classes)
        members = F.one_hot(labels[measured], classes).double()
        _, covariance = class_statistics(self.node_logits(graph)[measured], members)
        return {"logit_covariance": covariance.float().cpu()}
