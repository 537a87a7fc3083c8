"""Evidence from degrees: a class with more edges has nodes of higher degree."""

from typing import NamedTuple

import torch
from torch import Tensor

from matcha_gnn.graphs.memory import Graph

_LEAST_MEAN, _LEAST_SPREAD = 1e-3, 1e-6


class DegreeLaw(NamedTuple):
    """Incoming degrees of the nodes of each class: negative binomial, one dispersion for all.

    Attributes:
        means: of each class, [C].
        dispersion: 1/r, where the variance of a class of mean m is m + m²/r; 0 for Poisson's law.
    """

    means: Tensor
    dispersion: float

    def log_odds(self, degrees: Tensor) -> Tensor:
        """Log-likelihood of degrees [N] in each class, up to a constant per node, [N, C].

        Example:
            >>> law = DegreeLaw(torch.tensor([2.0, 8.0]).double(), 0.0)
            >>> law.log_odds(torch.tensor([2.0, 8.0]).double()).argmax(1)
            tensor([0, 1])
        """
        if self.dispersion < _LEAST_SPREAD:
            return degrees[:, None] * self.means.log() - self.means
        size = 1 / self.dispersion
        return (
            degrees[:, None] * (self.means / (self.means + size)).log()
            - size * (self.means + size).log()
        )


def incoming_degrees(graph: Graph) -> Tensor:
    """Number of edges that each node receives, self loops left out, [N] in float64."""
    ones = torch.ones(graph.num_nodes, 1, dtype=torch.float64, device=graph.device)
    return graph.incoming.sums(ones)[:, 0]


def fit_degree_law(edge_shares: Tensor, shares: Tensor, degrees: Tensor) -> DegreeLaw:
    """The law of degrees that goes with class-to-class shares of edges.

    The mean degree of class a is proportional to M_a / π_a, its share of edges over its share of
    nodes. The dispersion is what the variance of all degrees has beyond chance and these means.

    Args:
        edge_shares: M, receivers by senders, [C, C].
        shares: π, of the classes among nodes, [C].
        degrees: incoming, [N].
    """
    total, squares = float(degrees.sum()), float(degrees.square().sum())
    return degree_law(edge_shares, shares, len(degrees), total, squares)


def degree_law(
    edge_shares: Tensor, shares: Tensor, number: int, total: float, squares: float
) -> DegreeLaw:
    """The same from sums over nodes.

    Args:
        edge_shares: M, receivers by senders, [C, C].
        shares: π, of the classes among nodes, [C].
        number: of the nodes.
        total: of their degrees.
        squares: sum of their squared degrees.
    """
    number = max(1, number)
    mean = total / number
    variance = squares / number - mean**2
    relative = edge_shares.sum(1) / shares
    relative = relative / (shares @ relative)
    if mean <= 0:
        return DegreeLaw(torch.full_like(shares, _LEAST_MEAN), 0.0)
    beyond = (variance - mean) / mean**2 - float(shares @ (relative - 1).square())
    return DegreeLaw((mean * relative).clamp_min(_LEAST_MEAN), max(0.0, beyond))
