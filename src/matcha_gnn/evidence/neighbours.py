"""Evidence from edges: which classes are linked, and belief propagation by these shares."""

import math

from torch import Tensor

from matcha_gnn.graphs.base import BaseGraph
from matcha_gnn.typing import Probs

SAMPLE = 20_000
"""Edges that the shares are fitted on."""
_CYCLES, _TOLERANCE = 100, 1e-5
"""The fit ends when a cycle gains less log-likelihood per edge than the tolerance. That does not
depend on the number of classes, while a cell of M holds about 1/C² of the edges."""


def fit_edge_shares(senders: Probs, receivers: Probs, shares: Tensor) -> tuple[Tensor, float]:
    """Share of edges to a receiver of class a from a sender of class b, by maximum likelihood.

    Given their classes, the node-only features of an edge's two ends are independent. So an edge's
    likelihood relative to that of two unrelated nodes is Σ_ab M_ab (p_a/π_a)(q_b/π_b).

    Args:
        senders: calibrated class probabilities of each edge's sender, by node-only features,
            [E, C].
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

    def step(found: Tensor) -> tuple[Tensor, float]:
        likelihood = ((receivers @ found) * senders).sum(1).clamp_min(1e-300)
        update = found * ((receivers / likelihood[:, None]).T @ senders) / len(senders)
        # A pair of classes without an edge is rare, not impossible.
        return (update + 1e-4 * independent) / (1 + 1e-4), float(likelihood.log().mean())

    found, value = independent, -math.inf
    for _ in range(_CYCLES):
        before = value
        once, value = step(found)
        if value - before < _TOLERANCE:
            break
        twice, reached = step(once)
        farther, at_jump = step(_extrapolated(found, once, twice))
        found = farther if at_jump >= reached else twice
    return found, value


def _extrapolated(found: Tensor, once: Tensor, twice: Tensor) -> Tensor:
    """Extrapolate a fixed-point iteration on the simplex (SQUAREM, Varadhan and Roland 2008).

    Plain expectation maximisation needs hundreds of iterations with many classes.
    """
    first = once - found
    bend = twice - once - first
    length = max(1.0, float(first.norm() / bend.norm().clamp_min(1e-300)))
    jump = (found + 2 * length * first + length**2 * bend).clamp_min(1e-12)
    return jump / jump.sum()


def believe(evidence: Tensor, edge_shares: Tensor, shares: Tensor, graph: BaseGraph) -> Probs:
    """Class probabilities given the evidence of a node and of nodes up to two hops away, [N, C].

    Two rounds of belief propagation. In the second, the message to a neighbour leaves out what came
    from that neighbour; otherwise a node's evidence is echoed back and counted more than once.
    Directed graphs have no reverse messages, so nothing is subtracted.

    A message is log Σ_b M(b|a) q(b)/π_b: a sender is of class b with probability M(b|a) where
    the receiver is of class a, and q(b)/π_b is proportional to the likelihood of the sender's
    evidence. π are the class shares of nodes, which differ from those of edges' ends where classes
    have unequal degrees.

    Args:
        evidence: log-probabilities by node-only features, with `shares` as prior, [N, C].
        edge_shares: M from `fit_edge_shares`, [C, C].
        shares: π, [C].
        graph: its edges; self loops are ignored.

    Example:
        >>> import torch
        >>> from matcha_gnn.graphs.memory import Graph
        >>> pair = Graph(torch.ones(2, 1), torch.tensor([[0, 1], [1, 0]]))
        >>> alike = torch.tensor([[0.45, 0.05], [0.05, 0.45]]).double()
        >>> evidence, even = torch.tensor([[2.0, 0.0], [0.0, 0.0]]).double(), torch.ones(2) / 2
        >>> believe(evidence, alike, even.double(), pair).round(decimals=2)
        tensor([[0.8800, 0.1200],
                [0.8000, 0.2000]], dtype=torch.float64)
    """
    lift = edge_shares / edge_shares.sum(1, keepdim=True) / shares

    def message(probs: Probs) -> Tensor:
        return (probs @ lift.T).clamp_min(1e-12).log_()

    first = message(evidence.softmax(1))
    gathered = evidence + graph.neighbour_sums(first)
    if not graph.reciprocal:
        return (evidence + graph.neighbour_sums(message(gathered.softmax(1)))).softmax(1)
    second = graph.message_sums(
        lambda sender, back: message((sender - back).softmax(1)), sent=gathered, received=first
    )
    return (evidence + second).softmax(1)
