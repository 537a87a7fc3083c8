"""What a strategy is: an immutable object that seeks a better model on a target graph."""

import abc
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from torch import Tensor

from matcha_gnn.errors import IncompatibleError, InvalidArgumentError
from matcha_gnn.evidence import Posterior, Wanted
from matcha_gnn.gamma.hops import Hops
from matcha_gnn.gamma.losses import Loss
from matcha_gnn.gamma.methods import BaseMethod
from matcha_gnn.gamma.methods.settings import nested_parameters
from matcha_gnn.gamma.models import Backbone
from matcha_gnn.graphs.memory import Graph
from matcha_gnn.result import Adaptation
from matcha_gnn.typing import Parameters, Progress

if TYPE_CHECKING:
    from matcha_gnn.gamma.strategies.run import Run


@dataclass(frozen=True, eq=False)
class Task:
    """What a strategy works on.

    Attributes:
        model: a trained backbone; it is not changed.
        graph: the target, without labels.
        method: the base method that predicts around each model.
        seed: for base methods that draw at random.
        hops: of this model on this graph, if they are at hand.
        progress: called after each round with the rounds done and their number.
        wanted: what is to be high, and what the classes are called.
        owns_model: the model was made for this task alone, and need not be copied.
    """

    model: Backbone
    graph: Graph
    method: BaseMethod
    seed: int
    hops: Hops | None
    progress: Progress
    wanted: Wanted = Wanted()
    owns_model: bool = False

    def around(self, model: Backbone, hops: Hops | None = None) -> "Task":
        """The same with another model, and its hops if they are at hand."""
        return replace(self, model=model, hops=hops, owns_model=False)

    def of(self, proposal: "Proposal") -> "Task":
        """The same with a proposed model, and its base method if it brings one."""
        around = replace(self.around(proposal.model, proposal.hops), owns_model=proposal.fresh)
        return replace(around, method=proposal.method) if proposal.method else around


class Proposal(NamedTuple):
    """A model that a strategy offers as a candidate.

    Attributes:
        name: how it was made.
        model: the model.
        hops: those of its encoder on the target, if they are at hand.
        method: what predicts around it, where that is not the task's base method.
        fresh: the model was made for this proposal, and nothing else holds it or parts of it.
    """

    name: str
    model: Backbone
    hops: Hops | None = None
    method: BaseMethod | None = None
    fresh: bool = False


class Strategy(abc.ABC):
    """How a better model is sought. A subclass is a frozen dataclass of its hyperparameters.

    Only `run` is required. `version` is raised whenever results change: records carry it.

    Attributes:
        name: what the command line calls it.
        version: of the algorithm.
        uses_evidence: it needs an estimate of the classes.
    """

    name: ClassVar[str]
    version: ClassVar[int]
    uses_evidence: ClassVar[bool] = False

    def require(self, model: Backbone, method: BaseMethod) -> None:  # noqa: B027 (optional)
        """Raise IncompatibleError if the model lacks what this strategy needs."""

    def require_metric(self, wanted: Wanted) -> None:
        """Raise InvalidArgumentError if this strategy does not decide by what is wanted."""
        if not wanted.is_default:
            allowed = f"accuracy with strategy {self.name!r}, which compares no candidates by it"
            raise InvalidArgumentError("metric", repr(wanted.metric), allowed)

    @abc.abstractmethod
    def run(self, task: Task) -> Adaptation:
        """Seek a better model; the last prediction is that of the model that is returned."""

    def proposals(self, task: Task, base: "Run", evidence: Posterior) -> Iterator[Proposal]:
        """Candidates for a strategy that chooses among several: here, where `run` ends.

        Args:
            task: the model to start from, on the target.
            base: the base method around that model.
            evidence: what is known of the classes without labels.
        """
        yield Proposal(self.name, self.run(task).model)

    def can_run(self, model: Backbone, method: BaseMethod) -> bool:
        """Whether `require` accepts a model and a method."""
        try:
            self.require(model, method)
        except IncompatibleError:
            return False
        return True

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Hyperparameters by name, with those of parts if `deep`; as in scikit-learn.

        Example:
            >>> from matcha_gnn.gamma.strategies import ClosedForm
            >>> ClosedForm().get_params(deep=False)
            {'loss': SURE(noise_share=None), 'rounds': 1}
        """
        own = {each.name: getattr(self, each.name) for each in fields(self)}  # type: ignore[arg-type]
        return nested_parameters(own, deep)

    def parameters(self) -> Parameters:
        """Hyperparameters as JSON values, for records."""
        return {each.name: described(getattr(self, each.name)) for each in fields(self)}  # type: ignore[arg-type]


def with_gamma(model: Backbone, gamma: Tensor) -> Backbone:
    """A copy of a model with other hop-aggregation parameters."""
    found = model.copied()
    found.gamma.data.copy_(gamma)
    return found


def described(value: object) -> object:
    """A hyperparameter as JSON: losses and strategies by name, with their own."""
    if isinstance(value, Strategy):
        return {"name": value.name, "version": value.version, **value.parameters()}
    if isinstance(value, Loss):
        return {"name": value.name, **value.settings()}
    if isinstance(value, tuple):
        return [described(each) for each in value]
    return value
