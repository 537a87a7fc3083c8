"""Answer by what is known of nodes and edges, with the network or without it."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from matcha_gnn.errors import IncompatibleError, InvalidArgumentError
from matcha_gnn.evidence import Posterior, infer
from matcha_gnn.evidence.belief_model import ANSWERS, BeliefModel, network_probs
from matcha_gnn.evidence.weighing import BiasedPool
from matcha_gnn.gamma.hops import Hops
from matcha_gnn.gamma.methods import ERM, BaseMethod
from matcha_gnn.gamma.models import Backbone
from matcha_gnn.gamma.strategies.base import Proposal, Strategy, Task
from matcha_gnn.gamma.strategies.run import Run, finished
from matcha_gnn.graphs.memory import Graph
from matcha_gnn.result import Adaptation, Trace, outcome
from matcha_gnn.typing import Probs


def own_probs(run: Run, graph: Graph) -> Probs:
    """Class probabilities of a run's model itself, without its base method, [N, C]."""
    if isinstance(run.model, BeliefModel):
        return network_probs(run.model, graph)
    return run.prediction.probs if isinstance(run.method, ERM) else run.view.classify().probs


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
    version = 3
    uses_evidence = True

    answer: str = "pool"

    def __post_init__(self) -> None:
        if self.answer not in ANSWERS:
            raise InvalidArgumentError("answer", repr(self.answer), ", ".join(ANSWERS))

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
            network = own_probs(base, task.graph)
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
            model = BeliefModel(network.copied(), answer)
            hops = Hops(model.log_probs(evidence)[:, None])
            yield Proposal(answer, model, hops, ERM(), fresh=True)
        yield from _for_goal(task, network, evidence)


def _for_goal(task: Task, network: Backbone, evidence: Posterior) -> Iterator[Proposal]:
    """The pool with labels that make the wanted metric high, where these are not the likeliest.

    A threshold on the probabilities of all nodes.
    """
    summary = task.model.source
    if task.wanted.is_default or summary is None:
        return
    goal = task.wanted.goal(evidence.probs.shape[1], summary.class_prior)
    bias = goal.bias(evidence.probs)
    if bias is not None:
        pool = BiasedPool(evidence.source.pool_weights, bias)
        model = BeliefModel(network.copied(), "pool", pool)
        logs = (model.log_probs(evidence) + torch.tensor(bias).to(model.gamma)).log_softmax(1)
        yield Proposal(f"pool for {goal.title}", model, Hops(logs[:, None]), ERM(), fresh=True)
