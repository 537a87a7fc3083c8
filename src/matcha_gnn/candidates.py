"""Candidates: what answers by the evidence, what is expected of it, and which one is taken.

`proposals` makes pool, belief and probe of the posterior; `Rating` estimates each beside the
network's own answer; `choose` takes one.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from matcha_gnn.errors import InvalidArgumentError
from matcha_gnn.evidence.goals import ACCURACY, Goal, expected_confusion
from matcha_gnn.evidence.posterior import Interval, Posterior, infer, network_logs
from matcha_gnn.evidence.rating import rater_of
from matcha_gnn.evidence.summary import SourceSummary
from matcha_gnn.evidence.weighing import BiasedPool
from matcha_gnn.graphs.memory import Graph
from matcha_gnn.kernels.softmax import class_softmax
from matcha_gnn.metrics import f1, recall
from matcha_gnn.network.network import Network
from matcha_gnn.typing import Parameters, Probs

SOURCE = "source"
DESCRIPTIONS = {
    SOURCE: "the network as it is",
    "pool": "features, edges and network together",
    "belief": "features and edges, without the network",
    "probe": "the features of a node alone",
}
"""What each candidate answers by, in half a line."""
UNKNOWN = "cannot be estimated"
NO_ESTIMATE = Interval(math.nan, math.nan, math.nan)
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
            logs = posterior.evidence
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


class ClassScores(NamedTuple):
    """Scores of each class, [C] each; NaN for a class that does not occur.

    Attributes:
        precision: share of true labels among nodes that are given the class.
        recall: share of its nodes that are given the class.
        f1: harmonic mean of both.
    """

    precision: Tensor
    recall: Tensor
    f1: Tensor

    @classmethod
    def of(cls, confusion: Tensor) -> "ClassScores":
        """From nodes of class b among those that are given class a, expected or true, [C, C]."""
        hits, given, true = confusion.diagonal(), confusion.sum(1), confusion.sum(0)
        return cls(recall(hits, given), recall(hits, true), f1(hits, true, given))


@dataclass(frozen=True, repr=False)
class Candidate:
    """A classifier that was tried.

    Attributes:
        name: "source", or how it was made.
        accuracy: share of its labels that are expected to be true, with bounds.
        goal: what is expected of it in the metric that was chosen, with bounds; the accuracy
            where none was.
        gain: by how much the goal is more than the source's, with bounds.
        changed: share of labels that differ from the source's: accuracy cannot differ by more.
        probs: its class probabilities, [N, C].
        model: what `Result.model` is when it is taken.
        confusion: expected nodes of class b among those that it gives class a, [C, C]; None where
            nothing can be estimated.
    """

    name: str
    accuracy: Interval
    goal: Interval
    gain: Interval
    changed: float
    probs: Probs = field(compare=False)
    model: Network = field(compare=False)
    confusion: Tensor | None = field(default=None, compare=False)

    def __repr__(self) -> str:
        """One line."""
        changed = f"{self.changed:.1%} of labels changed"
        if not math.isfinite(self.accuracy.value + self.gain.value):
            return f"Candidate({self.name!r}, accuracy {UNKNOWN}, {changed})"
        goal = "" if self.goal == self.accuracy else f"goal {self.goal.value:.3g}, "
        middle, low, high = (f"{each:+.3g}" for each in self.gain)
        return (
            f"Candidate({self.name!r}, accuracy {self.accuracy.value:.1%}, {goal}gain {middle} "
            f"({low} to {high}), {changed})"
        )

    def to_dict(self) -> Parameters:
        """Its name and numbers as JSON values."""
        return {
            "name": self.name,
            "expected_accuracy": self.accuracy.value,
            "accuracy_low": self.accuracy.low,
            "accuracy_high": self.accuracy.high,
            "expected_goal": self.goal.value,
            "goal_low": self.goal.low,
            "goal_high": self.goal.high,
            "expected_gain": self.gain.value,
            "gain_lower_bound": self.gain.low,
            "gain_upper_bound": self.gain.high,
            "changed": self.changed,
        }

    def class_estimates(self) -> ClassScores | None:
        """Expected precision and recall of each class; None where nothing can be estimated."""
        return None if self.confusion is None else ClassScores.of(self.confusion)


class Rating:
    """Rates proposals beside the network's own answer.

    Args:
        goal: what is to be high.
        posterior: of the graph; None where it cannot tell.
        source: the network's own answer.
    """

    def __init__(self, goal: Goal, posterior: Posterior | None, source: Proposal) -> None:
        self.goal, self.posterior = goal, posterior
        self.labels = source.probs.argmax(1)
        self.rater = None if posterior is None else rater_of(goal, posterior)
        self.before: Any = self.rater and self.rater.rate(source.probs, self.labels)

    def __call__(self, proposal: Proposal) -> Candidate:
        """A candidate with its estimates, where something can be estimated."""
        probs, labels = proposal.probs, proposal.probs.argmax(1)
        changed = float(labels.ne(self.labels).sum()) / len(labels)
        unknown = NO_ESTIMATE, NO_ESTIMATE, NO_ESTIMATE
        if self.rater is None or self.posterior is None:
            return Candidate(proposal.name, *unknown, changed, probs, proposal.network)
        rated = self.before if proposal.name == SOURCE else self.rater.rate(probs, labels)
        gain, value = self.rater.gain(rated, self.before), self.rater.value(rated)
        if bool(self.posterior.source.stand_in):
            # It shows which labels fit features and edges better, not how many are right.
            estimates = NO_ESTIMATE, NO_ESTIMATE, gain
            return Candidate(proposal.name, *estimates, changed, probs, proposal.network)
        accuracy = value if self.goal == ACCURACY else self.posterior.accuracy(labels)
        confusion = expected_confusion(labels, self.posterior.probs).cpu()
        return Candidate(
            proposal.name, accuracy, value, gain, changed, probs, proposal.network, confusion
        )


def choose(candidates: Sequence[Candidate], goal: Goal) -> Candidate:
    """The best of those whose gain has a lower bound above zero; the source where there is none.

    For accuracy the one with the largest bound: the posterior's own labels have the largest
    expectation by construction. For other goals they have not, and the largest expectation counts.
    """
    return max(
        (one for one in candidates if one.gain.low > 0),
        key=lambda one: one.gain.low if goal == ACCURACY else one.gain.value,
        default=candidates[0],
    )
