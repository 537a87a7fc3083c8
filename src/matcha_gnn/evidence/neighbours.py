"""Evidence from edges: which classes are linked, belief propagation by that, and degrees."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from matcha_gnn.graphs.memory import Graph
from matcha_gnn.kernels.links import BeliefMessage
from matcha_gnn.typing import Probs

SAMPLE = 20_000
"""Edges that the shares are fitted on."""
ROUNDS, DAMPING = 3, 0.3
"""Of belief propagation; the share of the previous round's messages that is kept."""
_CYCLES, _TOLERANCE, _LONGEST = 100, 1e-5, 1e3
"""The fit ends when a cycle gains less log-likelihood per edge than the tolerance. That does not
depend on the number of classes, while a cell of M holds about 1/C² of the edges."""
_LEAST_MEAN, _LEAST_SPREAD = 1e-3, 1e-6
"""Of degrees, and of their dispersion."""


class Residuals(NamedTuple):
    """What linked nodes share beside their classes.

    In coordinates in which features have unit variance within classes, what a node's features have
    beside its class mean is correlated with the same of a neighbour.

    Attributes:
        points: node coordinates, [N, P].
        means: of the classes, [C, P].
        correlation: along edges, within classes, between 0 and 1.
    """

    points: Tensor
    means: Tensor
    correlation: float


class Ends(NamedTuple):
    """The likelihood of the features of edges' ends, up to a factor per edge.

    It is receivers[e, a] · coupling[a, b] · senders[e, b] where the receiver is of class a and the
    sender of class b.

    Attributes:
        senders: [E, C].
        receivers: [E, C].
        coupling: [C, C].
    """

    senders: Tensor
    receivers: Tensor
    coupling: Tensor

    def likelihoods(self, edge_shares: Tensor) -> Tensor:
        """Of each edge, with these class-to-class shares, up to a factor per edge, [E]."""
        pairs = (edge_shares * self.coupling).T
        return ((pairs @ self.receivers.T) * self.senders.T).sum(0).clamp_min(1e-300)

    def log_likelihood(self, edge_shares: Tensor) -> float:
        """The mean over all edges; 0 without edges."""
        return float(self.likelihoods(edge_shares).log().mean()) if len(self.senders) else 0.0


def edge_ends(
    senders: Probs, receivers: Probs, shares: Tensor, at: Residuals | None = None
) -> Ends:
    """Likelihoods of edges' ends from class probabilities by node-only features.

    With correlated Gaussian residuals r, s of unit variance the density of an edge's two ends is
    that of independent ends times exp((2ρ r·s − ρ²(|r|² + |s|²)) / (2(1 − ρ²))), which separates
    into a factor for the receiver's class, one for the sender's, and one for the pair.

    Args:
        senders: calibrated class probabilities of each edge's sender, [E, C].
        receivers: the same of its receiver, [E, C].
        shares: π, the class shares of nodes that the probabilities have as prior, [C].
        at: coordinates of senders and receivers, [2, E, P]; None where residuals are independent.
    """
    coupling = torch.ones(len(shares), len(shares)).to(shares)
    sent, received = ((each / shares).T.contiguous().T for each in (senders, receivers))
    if at is None or at.correlation <= 0:
        return Ends(sent, received, coupling)
    rho, means = at.correlation, at.means
    linear, square = rho / (1 - rho**2), rho**2 / (2 * (1 - rho**2))
    from_point, to_point = at.points

    def factor(own: Tensor, other: Tensor) -> Tensor:
        distance = torch.cdist(own, means).square()
        exponent = -square * distance - linear * (other @ means.T)
        return (exponent - exponent.amax(1, keepdim=True)).exp()

    pairs = linear * means @ means.T
    return Ends(
        sent * factor(from_point, to_point),
        received * factor(to_point, from_point),
        (pairs - pairs.max()).exp(),
    )


def fit_edge_shares(ends: Ends, shares: Tensor) -> Tensor:
    """Share of edges to a receiver of class a from a sender of class b, by maximum likelihood.

    Args:
        ends: likelihoods of edges' ends.
        shares: π, of the classes among nodes, [C].

    Returns:
        M, [C, C], summing to one.

    Example:
        >>> import torch
        >>> certain, even = torch.eye(2)[[0, 0, 1]].double(), torch.tensor([0.5, 0.5]).double()
        >>> links = torch.tensor([[0, 1, 0], [1, 0, 2]])
        >>> fit_edge_shares(edge_ends(*certain[links], even), even).round(decimals=2)
        tensor([[0.6700, 0.0000],
                [0.3300, 0.0000]], dtype=torch.float64)
    """
    independent = shares[:, None] * shares
    senders, receivers, coupling = ends
    if len(senders) == 0:
        return independent

    def step(found: Tensor) -> tuple[Tensor, float]:
        likelihood = ends.likelihoods(found)
        update = found * coupling * ((receivers.T / likelihood) @ senders) / len(senders)
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
    return found


def shrunk_edge_shares(ends: Ends, fitted: Tensor, source: Tensor, misfit: float) -> Tensor:
    """Fitted class-to-class shares, drawn to the source's as far as the fit is not to be believed.

    A fit without labels is off on the source itself: there its likelihood exceeds that of the true
    shares by `misfit` per edge. On a target the fit exceeds the source's shares by the squared size
    of the true change, in units of likelihood, plus the same error, plus what one expects of
    C² − 1 free numbers by chance. With t the share of the last two in the excess,
    (1 − t) · fitted + t · source has the least expected squared error of all such mixtures
    (James and Stein's rule, positive part). Where nothing moved, t is 1.

    Args:
        ends: likelihoods of edges' ends.
        fitted: by `fit_edge_shares`, [C, C].
        source: true shares on the source, [C, C].
        misfit: log-likelihood per edge by which the fit on the source exceeds them.
    """
    number = len(ends.senders)
    if number == 0:
        return source
    gain = ends.log_likelihood(fitted) - ends.log_likelihood(source)
    error = misfit + 0.5 * (fitted.numel() - 1) / number
    kept = min(1.0, error / gain) if gain > 0 else 1.0
    return (1 - kept) * fitted + kept * source


def _extrapolated(found: Tensor, once: Tensor, twice: Tensor) -> Tensor:
    """Extrapolate a fixed-point iteration on the simplex (SQUAREM, Varadhan and Roland 2008).

    Plain expectation maximisation needs hundreds of iterations with many classes.
    """
    first = once - found
    bend = twice - once - first
    length = min(max(1.0, float(first.norm() / bend.norm().clamp_min(1e-300))), _LONGEST)
    jump = (found + 2 * length * first + length**2 * bend).clamp_min(1e-12)
    return jump / jump.sum()


def belief_message(edge_shares: Tensor, shares: Tensor) -> BeliefMessage:
    """What nodes tell their neighbours.

    Args:
        edge_shares: M from `fit_edge_shares`, [C, C].
        shares: π, [C].
    """
    return BeliefMessage(edge_shares / edge_shares.sum(1, keepdim=True) / shares)


def neighbour_evidence(
    evidence: Tensor, edge_shares: Tensor, shares: Tensor, graph: Graph
) -> Tensor:
    """Log-odds of each node's classes by the nodes around it, [N, C].

    `ROUNDS` rounds of belief propagation. A message is log Σ_b M(b|a) q(b)/π_b: a sender is of
    class b with probability M(b|a) where the receiver is of class a, and q(b)/π_b is proportional
    to the likelihood of the sender's evidence. π are the class shares of nodes, which differ from
    those of edges' ends where classes have unequal degrees.

    From the second round on, the message to a neighbour leaves out what that neighbour sent the
    round before; otherwise a node's evidence comes back to it and counts more than once. What it
    sent is computed from its belief then, so that nothing is kept per edge. Directed graphs have
    no reverse messages, and nothing is left out.

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
        >>> found = neighbour_evidence(evidence, alike, even.double(), pair)
        >>> (evidence + found).softmax(1).round(decimals=2)
        tensor([[0.8800, 0.1200],
                [0.7200, 0.2800]], dtype=torch.float64)
    """
    message = belief_message(edge_shares, shares)

    def sent(belief: Tensor) -> Tensor:
        return message.of(belief.T.contiguous()).T

    sent_before = sent(evidence)
    found = graph.incoming.sums(sent_before)
    for number in range(1, ROUNDS):
        belief = evidence + found
        if graph.reciprocal:
            new = graph.incoming.message_sums(message, sent=belief, received=sent_before)
        else:
            new = graph.incoming.sums(sent(belief))
        found = (1 - DAMPING) * new + DAMPING * found
        if number < ROUNDS - 1:
            sent_before = sent(belief)
    return found


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
