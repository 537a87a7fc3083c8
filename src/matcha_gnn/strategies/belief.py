"""Answer by what is known of nodes and edges, with the network or without it."""

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from matcha_gnn.backbones import Backbone, LinearBackbone
from matcha_gnn.backbones.base import evaluating
from matcha_gnn.errors import IncompatibleError, InvalidArgumentError
from matcha_gnn.evidence import Posterior, infer
from matcha_gnn.graphs.base import BaseGraph
from matcha_gnn.graphs.memory import LocalGraph
from matcha_gnn.hops import Hops
from matcha_gnn.methods import ERM, BaseMethod, View
from matcha_gnn.result import Adaptation, Trace, outcome
from matcha_gnn.strategies.base import Proposal, Strategy, Task
from matcha_gnn.strategies.run import Run, finished
from matcha_gnn.typing import Probs, Repr

ANSWERS = ("pool", "belief", "probe")


class BeliefModel(Backbone):
    """A network whose source summary gives the answers; see `Belief`.

    Its representation are log-probabilities, and its head changes nothing. γ is the network's and
    decides an answer only through the pool.

    Args:
        network: with a source summary.
        answer: "pool", "belief" or "probe".
    """

    gamma_decides = False

    def __init__(self, network: Backbone, answer: str) -> None:
        super().__init__()
        if answer not in ANSWERS:
            raise InvalidArgumentError("answer", repr(answer), ", ".join(ANSWERS))
        self.network, self.answer = network, answer
        self.source, self.in_channels = network.source, network.in_channels
        classes = network.head.out_features
        self.head = nn.Linear(classes, classes, bias=False).to(network.gamma)
        with torch.no_grad():
            self.head.weight.copy_(torch.eye(classes))

    @property
    def gamma(self) -> nn.Parameter:  # type: ignore[override]
        """The network's."""
        return self.network.gamma

    @property
    def name(self) -> str:
        """What messages call this model."""
        return f"{self.network.name} with {self.answer}"

    def representation(self, graph: BaseGraph, constants: Any = None) -> Repr:
        """Log-probabilities on any graph, [N, C]."""
        network = network_probs(self.network, graph)
        return self.log_probs(infer(self.network, graph, network))

    def log_probs(self, posterior: Posterior) -> Repr:
        """The answer among all that a posterior has, [N, C]."""
        if self.answer == "pool":
            logs = posterior.probs.clamp_min(1e-30).log()
        elif self.answer == "belief":
            logs = posterior.gathered.weighted(posterior.source)
        else:
            logs = posterior.gathered.node
        return logs.to(self.gamma)

    def node_features(self, graph: LocalGraph) -> Tensor:
        """The network's."""
        return self.network.node_features(graph)

    def node_logits(self, own: Tensor) -> Tensor:
        """The network's."""
        return self.network.node_logits(own)


@torch.no_grad()
def network_probs(model: Backbone, graph: BaseGraph, run: Run | None = None) -> Probs:
    """Class probabilities of a model itself, without a base method, [N, C].

    Args:
        model: of a belief model, the network inside.
        graph: of any kind.
        run: of this model, if there is one: its hops are used.
    """
    if isinstance(model, BeliefModel):
        return network_probs(model.network, graph)
    if run is not None:
        return run.prediction.probs if isinstance(run.method, ERM) else run.view.classify().probs
    with evaluating(model):
        if isinstance(model, LinearBackbone):
            hops = model.hops(graph, keyed=False)
            return View(model, graph, hops, model.gamma.detach(), 0).classify().probs
        assert isinstance(graph, LocalGraph), "checked before any work"
        probs: Probs = model.head(model.representation(graph)).softmax(1)
        return probs


@dataclass(frozen=True)
class Belief(Strategy):
    """Answer by the evidence that the source summary makes possible, for any network.

    A linear classifier of raw features, the probe, says what a node's features tell. Which classes
    are linked is fitted on the target, and belief propagation adds what neighbours tell. The pool
    adds the network's own answer. Weights were learned on held-out nodes of the source under
    simulated shifts (`docs/method.md`). Nothing is compared here: `Guarded` does.

    The result's model is a network with its summary: it answers the next graph in the same way.
    Its answer is used as it is, without the base method.

    Args:
        answer: "pool": features, edges and network; "belief": features and edges; "probe":
            features alone.

    Example:
        >>> Belief().parameters()
        {'answer': 'pool'}
    """

    name = "belief"
    version = 1
    uses_evidence = True

    answer: str = "pool"

    def __post_init__(self) -> None:
        if self.answer not in ANSWERS:
            raise InvalidArgumentError("answer", repr(self.answer), ", ".join(ANSWERS))

    @property
    def blockwise(self) -> bool:
        """Yes."""
        return True

    def require(self, model: Backbone, method: BaseMethod) -> None:
        """Nothing of a network; that a summary is missing is said with what to do."""

    def run(self, task: Task) -> Adaptation:
        """Gather evidence, and answer by it."""
        base = Run(task)
        base.predict()
        base.require_finite()
        if task.model.source is None:
            raise IncompatibleError(
                "strategy 'belief' needs a source summary: mg.summarise_source(model, source_graph)"
            )
        with base.watch.stage("evidence"):
            network = network_probs(task.model, task.graph, base)
            evidence = infer(task.model, task.graph, network)
        chosen = next(p for p in self.proposals(task, base, evidence) if p.name == self.answer)
        run = Run(task.of(chosen))
        run.predict()
        trace = Trace()
        for each in (base, run):
            shown = each.prediction
            expected = evidence.expected_accuracy(shown.probs.argmax(1))
            trace.add_estimate(expected, each.view.gamma, shown.class_shares)
        status = outcome(trace, base.prediction, run.prediction, run.prediction.finite)
        run.watch.add(base.watch.seconds)
        return finished(self, task, run, first=base, trace=trace, status=status)

    def proposals(self, task: Task, base: Run, evidence: Posterior) -> Iterator[Proposal]:
        """Pool, belief and probe."""
        network = task.model.network if isinstance(task.model, BeliefModel) else task.model
        for answer in ANSWERS:
            model = BeliefModel(copy.deepcopy(network), answer)
            stack = model.log_probs(evidence)[:, None]
            yield Proposal(answer, model, Hops(stack, shard=task.graph.shard), ERM())
