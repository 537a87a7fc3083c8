"""What edges say: which classes are linked, and so what a node's neighbours say about it."""

from torch import Tensor

from matcha_gnn.target import Target
from matcha_gnn.typing import Probs

SAMPLE = 20_000
"""Edges to fit by."""
_ITERATIONS, _TOLERANCE = 30, 1e-4


def sample_edges(graph: Target, seed: int = 0) -> Tensor:
    """At most `SAMPLE` edges between different nodes, [2, E']."""
    return graph.sample_links(SAMPLE, seed)


def fit_edge_shares(senders: Probs, receivers: Probs, shares: Tensor) -> tuple[Tensor, float]:
    """Share of edges to a receiver of class a from a sender of class b, by maximum likelihood.

    Given the classes of its ends, what the two nodes look like by themselves is independent. So
    an edge's likelihood relative to that of two unrelated nodes is Σ_ab M_ab (p_a/π_a)(q_b/π_b).

    Args:
        senders: what each edge's sender is by its own features, calibrated, [E, C].
        receivers: the same of its receiver, [E, C].
        shares: π, the mean over all nodes, [C].

    Returns:
        M, [C, C], summing to one, and the mean log-likelihood ratio of an edge.

    Example:
        >>> import torch
        >>> certain, even = torch.eye(2)[[0, 0, 1]].double(), torch.tensor([0.5, 0.5]).double()
        >>> links = torch.tensor([[0, 1, 0], [1, 0, 2]])
        >>> fit_edge_shares(*certain[links], even)[0].round(decimals=2)
        tensor([[0.6700, 0.0000],
                [0.3300, 0.0000]], dtype=torch.float64)
    """
    independent = shares[:, None] * shares
    if len(senders) == 0:
        return independent, 0.0
    receivers, senders = receivers / shares, senders / shares
    found, value = independent, 0.0
    for _ in range(_ITERATIONS):
        likelihood = ((receivers @ found) * senders).sum(1).clamp_min(1e-300)
        value = float(likelihood.log().mean())
        update = found * ((receivers / likelihood[:, None]).T @ senders) / len(senders)
        # A pair of classes that no edge shows is rare, not impossible.
        update = (update + 1e-4 * independent) / (1 + 1e-4)
        moved = float((update - found).abs().max())
        found = update
        if moved < _TOLERANCE:
            break
    return found, value


def believe(evidence: Tensor, edge_shares: Tensor, graph: Target) -> Probs:
    """Classes given a node's own evidence and what it hears over two hops, [N, C].

    Two rounds of belief propagation: each node tells its neighbours what it is, then tells them
    again after having listened, leaving out what the listener itself had said. Without that, a node
    hears its own voice as its neighbours' and grows too sure.

    Args:
        evidence: log-probabilities by own features, [N, C].
        edge_shares: from `fit_edge_shares`, [C, C].
        graph: its edges; one from a node to itself says nothing.

    Example:
        >>> import torch
        >>> from matcha_gnn.graph import Graph
        >>> pair = Graph(torch.ones(2, 1), torch.tensor([[0, 1], [1, 0]]))
        >>> alike = torch.tensor([[0.45, 0.05], [0.05, 0.45]]).double()
        >>> believe(torch.tensor([[2.0, 0.0], [0.0, 0.0]]).double(), alike, pair).round(decimals=2)
        tensor([[0.8800, 0.1200],
                [0.8000, 0.2000]], dtype=torch.float64)
    """
    of_receiver = edge_shares / edge_shares.sum(1, keepdim=True)
    lift = of_receiver / edge_shares.sum(0)

    def told(probs: Probs) -> Tensor:
        return (probs @ lift.T).clamp_min(1e-12).log_()

    first = told(evidence.softmax(1))
    heard = evidence + graph.neighbour_sums(first)
    if not graph.reciprocal:
        return (evidence + graph.neighbour_sums(told(heard.softmax(1)))).softmax(1)
    again = graph.message_sums(
        lambda sender, own: told((sender - own).softmax(1)), sent=heard, received=first
    )
    return (evidence + again).softmax(1)
