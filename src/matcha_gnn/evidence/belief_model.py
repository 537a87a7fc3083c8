"""A model that answers by features and edges, with its network or without it."""

from typing import Any

import torch
from torch import Tensor, nn

from matcha_gnn.errors import InvalidArgumentError
from matcha_gnn.evidence.posterior import Posterior, infer, network_logs
from matcha_gnn.evidence.weighing import BiasedPool
from matcha_gnn.gamma.methods.base import View
from matcha_gnn.gamma.models import Backbone, LinearBackbone
from matcha_gnn.gamma.models.base import evaluating
from matcha_gnn.graphs.memory import Graph
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
        margin: by how much a class must be more probable than the network's to be given; elsewhere
            the network decides.
    """

    gamma_decides = False

    def __init__(
        self,
        network: Backbone,
        answer: str,
        pool: BiasedPool | None = None,
        margin: float = 0.0,
    ) -> None:
        super().__init__()
        if answer not in ANSWERS:
            raise InvalidArgumentError("answer", repr(answer), ", ".join(ANSWERS))
        if pool is not None and answer != "pool":
            raise InvalidArgumentError("pool", pool, f"none with the answer {answer!r}")
        if not 0 <= margin < 1:
            raise InvalidArgumentError("margin", margin, "a difference of probabilities, 0 to 1")
        self.network, self.answer, self.pool, self.margin = network, answer, pool, margin
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
        answer = f"{'biased ' if self.pool else ''}{self.answer}"
        return f"{self.network.name} with {answer}{' where it is sure' if self.margin else ''}"

    @property
    def fingerprint(self) -> Tensor | None:
        """The network's."""
        return self.network.fingerprint

    def accept(self, x: Tensor) -> Tensor:
        """As the network does."""
        return self.network.accept(x)

    def representation(self, graph: Graph, constants: Any = None) -> Repr:
        """Log-probabilities on a graph, [N, C]."""
        network = network_probs(self.network, graph)
        posterior = infer(self.network, graph, network)
        if self.pool is None:
            logs = self.log_probs(posterior)
        else:
            logs = posterior.pooled(network, self.pool).to(self.gamma)
        if self.margin:
            logs = surer(logs, network_logs(network).to(logs), self.margin)
        return logs

    def log_probs(self, posterior: Posterior) -> Repr:
        """The answer among all that a posterior has, [N, C]."""
        if self.answer == "pool":
            logs = posterior.probs.clamp_min(1e-30).log()
        elif self.answer == "belief":
            logs = posterior.gathered.weighted(posterior.source)
        else:
            logs = posterior.gathered.node
        return logs.to(self.gamma)

    def node_features(self, graph: Graph) -> Tensor:
        """The network's."""
        return self.network.node_features(graph)

    def node_logits(self, own: Tensor) -> Tensor:
        """The network's."""
        return self.network.node_logits(own)


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


@torch.no_grad()
def network_probs(model: Backbone, graph: Graph) -> Probs:
    """Class probabilities of a model itself, without a base method, [N, C].

    Args:
        model: of a belief model, the network inside.
        graph: the target.
    """
    if isinstance(model, BeliefModel):
        return network_probs(model.network, graph)
    with evaluating(model):
        if isinstance(model, LinearBackbone):
            hops = model.hops(graph, keyed=False)
            return View(model, graph, hops, model.gamma.detach(), 0).classify().probs
        probs: Probs = model.head(model.representation(graph)).softmax(1)
        return probs
