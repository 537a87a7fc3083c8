"""How much features, edges, degrees and network count: weights that make known labels likely."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from matcha_gnn.kernels.softmax import class_log_softmax, class_softmax
from matcha_gnn.typing import FloatArray

EQUAL = 0.5
"""Weight of evidence and of the network where no node shows how right the network is."""
DRAWN, SLOPE_DRAWN = 20.0, 5.0
"""How strongly weights are drawn to what they are without data, and slopes to zero: as by so many
nodes for each squared unit of distance."""
_STEPS = 60


class EvidenceWeights(NamedTuple):
    """How much each kind of evidence counts.

    Neighbours of a node share more than their classes, so that their evidence is not independent.
    With probability `silent` what is around a node says nothing of its class.

    Attributes:
        node: of log-probabilities by features; 1 where they are right as they are.
        edges: of log-odds by neighbours, likewise.
        degree: of log-odds by the degree, likewise.
        silent: between 0 and 1.
    """

    node: float = 1.0
    edges: float = 1.0
    degree: float = 1.0
    silent: float = 0.0

    def combined(self, node: Tensor, edges: Tensor, degrees: Tensor) -> Tensor:
        """Log-probabilities by all three, [N, C] each and as the result.

        Example:
            >>> even, sure = torch.zeros(1, 2), torch.tensor([[9.0, 0.0]])
            >>> EvidenceWeights(silent=0.2).combined(even, sure, even).exp().round(decimals=2)
            tensor([[0.9000, 0.1000]])
        """
        return _combined(torch.tensor(self).to(node), node, edges, degrees)


class PoolWeights(NamedTuple):
    """How much evidence and the network's log-probabilities count in the pool of both."""

    evidence: float = EQUAL
    network: float = EQUAL

    def pool(self, evidence: Tensor, network: Tensor) -> Tensor:
        """Log-probabilities by both, [N, C] each and as the result."""
        return class_log_softmax(self.evidence * evidence + self.network * network)


class BiasedPool(NamedTuple):
    """The pool with weights and biases that were chosen for a metric.

    Attributes:
        weights: of evidence and network.
        bias: of the log-probability of each class.
    """

    weights: PoolWeights
    bias: tuple[float, ...]

    def pool(self, evidence: Tensor, network: Tensor) -> Tensor:
        """Log-probabilities by both, [N, C] each and as the result.

        Example:
            >>> even = torch.zeros(1, 2)
            >>> BiasedPool(PoolWeights(), (0.0, 1.1)).pool(even, even).exp().round(decimals=2)
            tensor([[0.2500, 0.7500]])
        """
        bias = torch.tensor(self.bias).to(evidence)
        return class_log_softmax(self.weights.pool(evidence, network) + bias)


def _combined(weights: Tensor, node: Tensor, edges: Tensor, degrees: Tensor) -> Tensor:
    of_node, of_edges, of_degree, silent = weights
    around = class_softmax(of_edges * edges + of_degree * degrees)
    heard = ((1 - silent) * around + silent / node.shape[1]).clamp_min(1e-30).log()
    return class_log_softmax(of_node * node + heard)


def fit_evidence_weights(
    shifts: Sequence[tuple[Tensor, Tensor, Tensor]], labels: Tensor
) -> EvidenceWeights:
    """Weights under which labels are most likely, over several versions of a graph.

    Args:
        shifts: evidence by features, neighbours and degrees under each, [n, C] each.
        labels: of the same nodes under all, [n].
    """
    right = torch.tensor(EvidenceWeights()).double()

    def objective(weights: Tensor) -> Tensor:
        likely = [_at_labels(_combined(weights, *terms), labels) for terms in shifts]
        return DRAWN / len(labels) * (weights - right).square().sum() - _mean(likely)

    bounds = [(0.0, None), (0.0, None), (0.0, None), (0.0, 1.0)]
    start = right + torch.tensor([0.0, 0.0, -0.5, 0.1])
    return EvidenceWeights(*_minimised(objective, start, bounds))


def fit_pool_weights(
    shifts: Sequence[tuple[Tensor, Tensor]], labels: Tensor, exposed: Tensor
) -> PoolWeights:
    """Weights of evidence and network on a graph that the network has not seen.

    The network has seen the features of held-out nodes: as neighbours of nodes that it was trained
    on, whose classes are mostly theirs. There it is more right than on a new graph. So weights are
    linear in the share of neighbours that were trained on, and those at zero are returned. Such
    neighbours can only make the network look better.

    Args:
        shifts: log-probabilities of held-out nodes by evidence and by the network, under each
            version of a graph, [n, C] each.
        labels: of the same nodes under all, [n].
        exposed: share of each node's neighbours that the network was trained on, [n].
    """
    if len(labels) == 0:
        return PoolWeights()
    share = exposed[:, None]

    def objective(weights: Tensor) -> Tensor:
        evidence, network, less, more = weights
        likely = [
            _at_labels(
                class_log_softmax(
                    (evidence - less * share) * one + (network + more * share) * other
                ),
                labels,
            )
            for one, other in shifts
        ]
        away = DRAWN * (weights[:2] - EQUAL).square().sum()
        steep = SLOPE_DRAWN * weights[2:].square().sum()
        return (away + steep) / len(labels) - _mean(likely)

    bounds = [(0.0, 1.0), (0.0, None), (0.0, 1.0), (0.0, 1.0)]
    start = torch.tensor([EQUAL, EQUAL, 0.0, 0.0]).double()
    return PoolWeights(*_minimised(objective, start, bounds)[:2])


def _at_labels(log_probs: Tensor, labels: Tensor) -> Tensor:
    return log_probs.gather(1, labels[:, None]).mean()


def _mean(values: Sequence[Tensor]) -> Tensor:
    return torch.stack(list(values)).mean()


@torch.enable_grad()
def _minimised(
    objective: Callable[[Tensor], Tensor],
    start: Tensor,
    bounds: Sequence[tuple[float | None, float | None]],
) -> list[float]:
    def value_and_slope(point: FloatArray) -> tuple[float, FloatArray]:
        weights = torch.from_numpy(point.copy()).requires_grad_()
        value = objective(weights)
        value.backward()  # type: ignore[no-untyped-call]
        assert weights.grad is not None
        return value.item(), weights.grad.numpy()

    found = minimize(
        value_and_slope,
        np.asarray(start),
        jac=True,
        method="L-BFGS-B",
        bounds=list(bounds),
        options={"maxiter": _STEPS},
    )
    weights: list[float] = found.x.tolist()
    return weights
