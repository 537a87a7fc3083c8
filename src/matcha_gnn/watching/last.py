"""The model that was adapted to an earlier graph of a stream, as one more candidate."""

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from matcha_gnn.evidence import Posterior
from matcha_gnn.gamma.models import Backbone
from matcha_gnn.gamma.strategies import Guarded, Proposal, Strategy, Task, Unadapted
from matcha_gnn.gamma.strategies.run import Run
from matcha_gnn.result import Adaptation
from matcha_gnn.typing import Parameters

LAST = "last"
_HEAD_BIAS = "head.bias"


@dataclass(frozen=True)
class Last(Strategy):
    """Propose a model that was adapted to an earlier graph.

    Args:
        model: adapted from the source model, never from another adapted one.
    """

    name = LAST
    version = 1

    model: Backbone = field(repr=False)

    def run(self, task: Task) -> Adaptation:
        """Predict with it."""
        return Unadapted().run(task.around(self.model))

    def proposals(self, task: Task, base: Run, evidence: Posterior) -> Iterator[Proposal]:
        """The model as it is: its own features are not moved back once more."""
        yield Proposal(LAST, self.model, method=task.method)

    def parameters(self) -> Parameters:
        """None that a record could hold."""
        return {}


def with_last(strategy: Strategy, last: Backbone | None) -> Strategy:
    """A strategy that compares candidates compares the last model, too; others stay as they are."""
    if last is None or not isinstance(strategy, Guarded):
        return strategy
    return replace(strategy, strategies=(*strategy.strategies, Last(last)))


def changes_of(model: Backbone, source: Backbone) -> dict[str, Tensor]:
    """The tensors in which an adapted model differs from its source; few where only γ moved."""
    before = source.state_dict()
    return {
        name: tensor.detach().cpu().clone()
        for name, tensor in model.state_dict().items()
        if name not in before or not torch.equal(tensor, before[name])
    }


def with_changes(source: Backbone, changes: dict[str, Tensor]) -> Backbone:
    """A copy of a source model with other tensors, from `changes_of`.

    Raises:
        RuntimeError: they do not fit.
    """
    found = copy.deepcopy(source)
    # An intercept of the classes is a bias that the head of the source model may not have.
    if _HEAD_BIAS in changes and _HEAD_BIAS not in found.state_dict():
        found.head.bias = nn.Parameter(torch.zeros_like(changes[_HEAD_BIAS]))
    refused = found.load_state_dict(changes, strict=False).unexpected_keys
    if refused:
        raise RuntimeError(f"the model has no {refused[0]}")
    return found.frozen()


def worth_keeping(model: Backbone, source: Backbone) -> bool:
    """Whether a model holds something of the graph it was adapted to, and a state can hold it.

    An answer by evidence is gathered anew on every graph, and proposed there anyway. A model of
    another class than the source's, such as a network with added hops, is not some of its tensors.
    """
    return type(model) is type(source)
