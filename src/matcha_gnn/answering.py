"""Answers by the evidence: pool, belief and probe, and the network that gives them again."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from matcha_gnn.errors import InvalidArgumentError
from matcha_gnn.evidence.goals import ACCURACY, Goal
from matcha_gnn.evidence.posterior import Posterior, infer, network_logs
from matcha_gnn.evidence.summary import SourceSummary
from matcha_gnn.evidence.weighing import BiasedPool
from matcha_gnn.functional import class_softmax
from matcha_gnn.graphs.memory import Graph
from matcha_gnn.network.network import Network
from matcha_gnn.typing import Probs

KINDS = ("pool", "belief", "probe")


@dataclass(frozen=True)
class Answer:
    """How class probabilities follow from what is known of a graph.

    Attributes:
        kind: "pool": features, edges and network; "belief": features and edges; "probe": features.
        bias: weights and biases of the pool that were chosen for a metric; the source's else.
        margin: by how much a class must be more probable than the network's to be given; elsewhere
            the network decides.
    """

    kind: str
    bias: BiasedPool | None = None
    margin: float = 0.0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InvalidArgumentError("answer", repr(self.kind), ", ".join(KINDS))
        if self.bias is not None and self.kind != "pool":
            raise InvalidArgumentError("bias", self.bias, f"none with the answer {self.kind!r}")
        if not 0 <= self.margin < 1:
            raise InvalidArgumentError(
                "margin", self.margin, "a difference of probabilities, 0 to 1"
            )

    def log_probs(self, posterior: Posterior, network: Probs) -> Tensor:
        """Log-probabilities, [N, C].

        Args:
            posterior: of the graph.
            network: class probabilities by the network, [N, C].
        """
        if self.bias is not None:
            logs = posterior.pooled(network, self.bias)
        elif self.kind == "pool":
            logs = posterior.probs.clamp_min(1e-30).log()
        elif self.kind == "belief":
            logs = posterior.gathered.weighted(posterior.source)
        else:
            logs = posterior.gathered.node
        logs = logs.to(network)
        return surer(logs, network_logs(network), self.margin) if self.margin else logs


class AnsweringNetwork(Network):
    """A network whose source summary gives the answers.

    Args:
        network: what the pool counts beside features and edges.
        source: of the network.
        answer: how probabilities follow.
    """

    def __init__(self, network: Network, source: SourceSummary, answer: Answer) -> None:
        super().__init__()
        self.network, self.source, self.answer = network, source, answer

    @property
    def name(self) -> str:
        """What messages call it."""
        sure = " where it is sure" if self.answer.margin else ""
        return f"{self.network.name} with {self.answer.kind}{sure}"

    @property
    def fingerprint(self) -> Tensor | None:
        """The network's."""
        return self.network.fingerprint

    def accept(self, x: Tensor) -> Tensor:
        """As the network does."""
        return self.network.accept(x)

    @torch.no_grad()
    def logits(self, graph: Graph) -> Tensor:
        """Log-probabilities on any graph, [N, C]."""
        probs = self.network.probs(graph)
        return self.answer.log_probs(infer(self.source, graph, probs), probs)


@dataclass(frozen=True, eq=False)
class Proposal:
    """Probabilities that may be better than the network's.

    Attributes:
        name: what it is called.
        probs: class probabilities, [N, C].
        network: gives them again, on other graphs too.
    """

    name: str
    probs: Probs
    network: Network


def proposals(
    network: Network, source: SourceSummary, posterior: Posterior, probs: Probs, goal: Goal
) -> Iterator[Proposal]:
    """Pool, belief and probe; for another metric than accuracy also the pool that makes it high.

    Args:
        network: the caller's.
        source: its summary.
        posterior: of the graph.
        probs: the network's, [N, C].
        goal: what is to be high.
    """
    for kind in KINDS:
        answer = Answer(kind)
        logs = answer.log_probs(posterior, probs)
        yield Proposal(kind, class_softmax(logs), AnsweringNetwork(network, source, answer))
    bias = None if goal == ACCURACY else goal.bias(posterior.probs)
    if bias is not None:
        answer = Answer("pool", BiasedPool(posterior.source.pool_weights, bias))
        logs = Answer("pool").log_probs(posterior, probs)
        logs = (logs + torch.tensor(bias).to(logs)).log_softmax(1)
        answering = AnsweringNetwork(network, source, answer)
        yield Proposal(f"pool for {goal.title}", class_softmax(logs), answering)


def surer(logs: Tensor, network: Tensor, margin: float) -> Tensor:
    """Log-probabilities where they are sure that the network is wrong, and the network's elsewhere.

    Args:
        logs: log-probabilities, [N, C].
        network: those of the network, [N, C].
        margin: by how much a class must be more probable than the network's.

    Example:
        >>> logs = torch.tensor([[0.1, 0.9], [0.4, 0.6]]).log()
        >>> surer(logs, torch.tensor([[0.7, 0.3]]).log().expand(2, 2), 0.5).exp()
        tensor([[0.1000, 0.9000],
                [0.7000, 0.3000]])
    """
    probs = logs.exp()
    gain = probs.amax(1) - probs.gather(1, network.argmax(1, keepdim=True))[:, 0]
    return torch.where((gain > margin)[:, None], logs, network)
