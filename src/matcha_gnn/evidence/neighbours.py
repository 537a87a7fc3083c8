"""What edges say: which classes are linked, and so what a node's neighbours say about it."""

import torch
from torch import Tensor

from matcha_gnn.typing import Probs

SAMPLE = 20_000
"""Edges to fit by."""
_ITERATIONS, _TOLERANCE = 30, 1e-4
_BLOCK = 1 << 20


def sample_edges(edge_index: Tensor, seed: int = 0) -> Tensor:
    """At most `SAMPLE` edges between different nodes, [2, E']."""
    links = edge_index[:, edge_index[0] != edge_index[1]]
    if links.shape[1] <= SAMPLE:
        return links
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randint(links.shape[1], (SAMPLE,), generator=generator)
    return links[:, drawn.to(links.device)]


def fit_edge_shares(probs: Probs, shares: Tensor, edge_index: Tensor) -> tuple[Tensor, float]:
    """Share of edges to a receiver of class a from a sender of class b, by maximum likelihood.

    Given the classes of its ends, what the two nodes look like by themselves is independent. So
    an edge's likelihood relative to that of two unrelated nodes is Σ_ab M_ab (p_a/π_a)(q_b/π_b).

    Args:
        probs: what each node is by its own features, calibrated, [N, C].
        shares: π, their mean, [C].
        edge_index: [2, E].

    Returns:
        M, [C, C], summing to one, and the mean log-likelihood ratio of an edge.

    Example:
        >>> certain, even = torch.eye(2)[[0, 0, 1]].double(), torch.tensor([0.5, 0.5]).double()
        >>> links = torch.tensor([[0, 1, 0], [1, 0, 2]])
        >>> fit_edge_shares(certain, even, links)[0].round(decimals=2)
        tensor([[0.6700, 0.0000],
                [0.3300, 0.0000]], dtype=torch.float64)
    """
    independent = shares[:, None] * shares
    if edge_index.shape[1] == 0:
        return independent, 0.0
    ratios = probs / shares
    receivers, senders = ratios[edge_index[1]], ratios[edge_index[0]]
    found, value = independent, 0.0
    for _ in range(_ITERATIONS):
        likelihood = ((receivers @ found) * senders).sum(1).clamp_min(1e-300)
        value = float(likelihood.log().mean())
        update = found * ((receivers / likelihood[:, None]).T @ senders) / edge_index.shape[1]
        # A pair of classes that no edge shows is rare, not impossible.
        update = (update + 1e-4 * independent) / (1 + 1e-4)
        moved = float((update - found).abs().max())
        found = update
        if moved < _TOLERANCE:
            break
    return found, value


def neighbour_evidence(probs: Probs, edge_shares: Tensor, edge_index: Tensor) -> Tensor:
    """Log-likelihood of each node's classes given what its senders seem to be, [N, C].

    Args:
        probs: of the senders, [N, C].
        edge_shares: from `fit_edge_shares`, [C, C].
        edge_index: [2, E]; an edge from a node to itself says nothing.
    """
    of_receiver = edge_shares / edge_shares.sum(1, keepdim=True)
    lift = of_receiver / edge_shares.sum(0)
    messages = (probs @ lift.T).clamp_min(1e-12).log()
    total = torch.zeros_like(messages)
    for first in range(0, edge_index.shape[1], _BLOCK):
        sender, receiver = edge_index[:, first : first + _BLOCK]
        apart = sender != receiver
        total.index_add_(0, receiver[apart], messages[sender[apart]])
    return total
