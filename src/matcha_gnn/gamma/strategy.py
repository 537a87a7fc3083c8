"""What a strategy is: an immutable object that seeks a better model on a target graph."""

import abc
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, ClassVar

from matcha_gnn.errors import require_kind, require_seed
from matcha_gnn.gamma.hops import Hops
from matcha_gnn.gamma.losses import Loss
from matcha_gnn.gamma.methods import ERM, BaseMethod
from matcha_gnn.gamma.models import Backbone
from matcha_gnn.graphs.memory import Graph
from matcha_gnn.network.network import Network
from matcha_gnn.typing import Parameters, Progress

if TYPE_CHECKING:
    from matcha_gnn.gamma.result import MatchaResult

_AROUND = ("method", "seed")


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
        class_names: of the classes, [C], or empty.
    """

    model: Backbone
    graph: Graph
    method: BaseMethod
    seed: int
    hops: Hops | None
    progress: Progress
    class_names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Strategy(abc.ABC):
    """How a better model is sought. A subclass is a frozen dataclass of its hyperparameters.

    Only `seek` is required. `version` is raised whenever results change: records carry it.

    Args:
        method: the base method that predicts around each model.
        seed: for base methods that draw at random.

    Attributes:
        name: what the command line calls it.
        version: of the algorithm.
    """

    name: ClassVar[str]
    version: ClassVar[int]

    method: BaseMethod = field(default_factory=ERM)
    seed: int = 0

    def __post_init__(self) -> None:
        require_kind("method", self.method, BaseMethod, "a BaseMethod, such as mg.T3A()")
        require_seed(self.seed)

    def require(self, model: Backbone) -> None:  # noqa: B027 (optional)
        """Raise IncompatibleError if the model lacks what this strategy needs."""

    @abc.abstractmethod
    def seek(self, task: Task) -> "MatchaResult":
        """Seek a better model; the last prediction is that of the model that is returned."""

    def run(
        self, network: Network, graph: Graph, class_names: tuple[str, ...] = ()
    ) -> "MatchaResult":
        """What `mg.adapt(..., strategy=...)` calls: seek on a private copy of a network."""
        from matcha_gnn.gamma.networks import as_backbone
        from matcha_gnn.gamma.running import carried_out

        return carried_out(self, as_backbone(network), graph, class_names=class_names)

    def parameters(self) -> Parameters:
        """Hyperparameters but for method and seed as JSON values, for records."""
        own = (each.name for each in fields(self) if each.name not in _AROUND)
        return {name: described(getattr(self, name)) for name in own}


def described(value: object) -> object:
    """A hyperparameter as JSON: losses and strategies by name, with their own."""
    if isinstance(value, Strategy):
        return {"name": value.name, "version": value.version, **value.parameters()}
    if isinstance(value, Loss):
        return {"name": value.name, **value.settings()}
    if isinstance(value, tuple):
        return [described(each) for each in value]
    return value
