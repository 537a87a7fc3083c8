"""A model that answers by features and edges, with its network or without it."""

from typing import Any

import torch
from torch import Tensor, nn

from matcha_gnn.backbones import Backbone, LinearBackbone
from matcha_gnn.backbones.base import evaluating
from matcha_gnn.errors import InvalidArgumentError
from matcha_gnn.evidence.posterior import Posterior, infer
from matcha_gnn.evidence.weighing import BiasedPool
from matcha_gnn.graphs.base import BaseGraph
from matcha_gnn.graphs.memory import LocalGraph
from matcha_gnn.methods.base import View
from matcha_gnn.typing import Probs, Repr

ANSWERS = ("pool", "belief", "probe")


class BeliefModel(Backbone):
    """A network whose source summary gives the answers; see `strategies.Belief`.

    Its representation are log-probabilities, and its head changes nothing. γ is the network's and
    decides an answer only through the pool.

    Args:
        network: with a source summary.
        answer: "pool", "belief" or "probe".
        pool: weights and biases of the pool, where they were fitted to answers or to a metric; the
            source's else.
    """

    gamma_decides = False

    def __init__(self, network: Backbone, answer: str, pool: BiasedPool | None = None) -> None:
        super().__init__()
        if answer not in ANSWERS:
            raise InvalidArgumentError("answer", repr(answer), ", ".join(ANSWERS))
        if pool is not None and answer != "pool":
            raise InvalidArgumentError("pool", pool, f"none with the answer {answer!r}")
        self.network, self.answer, self.pool = network, answer, pool
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
        return f"{self.network.name} with {'biased ' if self.pool else ''}{self.answer}"

    def accept(self, x: Tensor) -> Tensor:
        """As the network does."""
        return self.network.accept(x)

    def representation(self, graph: BaseGraph, constants: Any = None) -> Repr:
        """Log-probabilities on any graph, [N, C]."""
        network = network_probs(self.network, graph)
        posterior = infer(self.network, graph, network)
        if self.pool is not None:
            return posterior.pooled(network, self.pool).to(self.gamma)
        return self.log_probs(posterior)

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
def network_probs(model: Backbone, graph: BaseGraph) -> Probs:
    """Class probabilities of a model itself, without a base method, [N, C].

    Args:
        model: of a belief model, the network inside.
        graph: of any kind.
    """
    if isinstance(model, BeliefModel):
        return network_probs(model.network, graph)
    with evaluating(model):
        if isinstance(model, LinearBackbone):
            hops = model.hops(graph, keyed=False)
            return View(model, graph, hops, model.gamma.detach(), 0).classify().probs
        assert isinstance(graph, LocalGraph), "checked before any work"
        probs: Probs = model.head(model.representation(graph)).softmax(1)
        return probs
