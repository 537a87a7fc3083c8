"""A backbone says how a graph becomes a representation, and which numbers γ decide it.

What more is known of a model is said by its class: `LinearBackbone` and `FilterBackbone` (in
`linear`) have cached hops, and `TrainableBackbone` can be trained by `fit` and saved.
"""

import abc
import copy
import inspect
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from matcha_gnn.errors import IncompatibleError, InvalidGraphError
from matcha_gnn.gamma.hops import Hops, HopsKey
from matcha_gnn.gamma.models.products import bias_apart
from matcha_gnn.graphs.memory import Graph, GraphLike, content_hash, unlabelled
from matcha_gnn.kernels.contexts import drawing_alone
from matcha_gnn.network.modules import fingerprint
from matcha_gnn.network.network import Network, evaluating
from matcha_gnn.typing import HopStack, HopWeights, Probs, Repr

_TABLES = (dict, OrderedDict, set)


class Backbone(Network, abc.ABC):
    """A node classifier with a few numbers γ that say how far a node looks, and a head on Z.

    A subclass gives `representation`. Of such a model Z itself is the only hop, made again
    whenever γ moves; models that are known to be linear in cached hops are `LinearBackbone`s.

    Attributes:
        gamma: the hop-aggregation parameters, what adaptation moves.
        head: the linear classifier on Z.
        num_hops: K; 0 where Z is the only hop.
        in_channels: features F; 0 where the model does not say.
        source: what training recorded of the source graph, or None before training.
        source_arrays: arrays made from the source graph that travel with the model, by the name
            of the base method that needs them.
        gamma_is_hop_weights: whether γ are the hop weights themselves, so that any weights can be
            reached.
    """

    gamma: nn.Parameter
    head: nn.Linear
    num_hops: int = 0
    in_channels: int

    def __init__(self) -> None:
        super().__init__()
        self.source_arrays: dict[str, dict[str, Tensor]] = {}

    @property
    def gamma_is_hop_weights(self) -> bool:
        """Not known of a model in general."""
        return False

    @property
    def fingerprint(self) -> Tensor | None:
        """Of all weights and buffers but γ, which adaptation moves; None where there are none."""
        return fingerprint({n: part for n, part in self.state_dict().items() if n != "gamma"})

    @abc.abstractmethod
    def representation(self, graph: Graph, constants: Any = None) -> Repr:
        """Z with gradients to every parameter, [N, D].

        Args:
            graph: a checked graph.
            constants: from `constants`, for models that have some; parameters that decided them
                get no gradient then.
        """

    def constants(self, graph: Graph) -> Any:
        """What `representation` can use again as long as only γ moves; None for nothing."""
        return None

    def encoder_parameters(self) -> list[nn.Parameter]:
        """θ: all parameters but γ and the head's, in a fixed order."""
        outside = {id(self.gamma), *(id(p) for p in self.head.parameters())}
        return [p for p in self.parameters() if id(p) not in outside]

    def stack(self, graph: Graph) -> HopStack:
        """The hops of a checked graph, [N, K+1, D]: here Z as the only one, [N, 1, D]."""
        return self.representation(graph, self.constants(graph))[:, None]

    def hops(self, graph: Graph | GraphLike, *, keyed: bool = True) -> Hops:
        """The hops on a graph, in evaluation mode and without gradients.

        Args:
            graph: a PyG `Data`, or a checked graph.
            keyed: record what they were made from, so that they can be handed to `adapt` later.
                Hashing reads the features once; hops that are used on the spot can go without.
        """
        checked = unlabelled(graph)
        with torch.no_grad(), evaluating(self):
            stack = self.stack(checked)
        return Hops(stack, self.hops_key(checked) if keyed else None)

    def mixed_hops(self, graph: Graph) -> Hops | None:
        """Z at the model's γ as the only hop; None where hops are as easily made."""
        return None

    def hops_key(self, graph: Graph | GraphLike) -> HopsKey:
        """Content hashes of the graph and of all that decides the hops in this model."""
        return HopsKey(unlabelled(graph).fingerprint, content_hash(*self._hop_tensors()))

    def _hop_tensors(self) -> list[Tensor]:
        """All that decides the hops in this model but γ; where Z is the only one, γ too."""
        return [
            *self.encoder_parameters(),
            *self.buffers(),
            torch.tensor(self.num_hops),
            self.gamma,
        ]

    def logits(self, graph: Graph) -> Tensor:
        """Logits at the model's γ, [N, C]."""
        logits: Tensor = self.head(self.representation(graph))
        return logits

    def probs(self, graph: Graph) -> Probs:
        """Class probabilities from the hops, [N, C]."""
        with bias_apart():
            hops = self.hops(graph, keyed=False)
        return hops.predict(self.hop_weights_now(), self.head)[0]

    def hop_weights(self, gamma: Tensor) -> HopWeights:
        """c(γ), the weight of each hop, [K+1]; one where Z is the only hop."""
        return gamma.new_ones(1)

    def hop_weights_now(self) -> HopWeights:
        """Those at the model's γ, [K+1]."""
        return self.hop_weights(self.gamma.detach())

    def further_tensors(self) -> Mapping[str, Tensor]:
        """The source arrays of base methods."""
        return {
            f"source_arrays.{method}.{name}": tensor
            for method, arrays in self.source_arrays.items()
            for name, tensor in arrays.items()
        }

    def accept(self, x: Tensor) -> Tensor:
        """Return the features in the model's precision, or say what does not fit."""
        if x.shape[1] != self.in_channels:
            allowed = f"{self.in_channels} features, as the model was trained with"
            raise InvalidGraphError("graph.x", f"{x.shape[1]} features", allowed)
        if x.device != self.gamma.device:
            raise IncompatibleError(f"graph is on {x.device}, the model on {self.gamma.device}")
        return x.to(self.gamma.dtype)

    def _apply(self, fn: Any, recurse: bool = True) -> Self:
        """What travels with the model moves with it to another device or precision."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self.source_arrays = {
            method: {name: fn(part) for name, part in parts.items()}
            for method, parts in self.source_arrays.items()
        }
        return self

    def copied(self) -> Self:
        """A copy to be changed; what the source left, which nobody changes, is shared."""
        arrays = [part for parts in self.source_arrays.values() for part in parts.values()]
        known: dict[int, Any] = {id(part): part for part in (self.source, *arrays)}
        # Most of a small model is empty tables of hooks, which are slow to copy one by one.
        tables = (part for module in self.modules() for part in vars(module).values())
        empty = (part for part in tables if type(part) in _TABLES and not part)
        return copy.deepcopy(self, known | {id(part): type(part)() for part in empty})


class TrainableBackbone(Backbone):
    """A model that `fit` can train and `save_model` can write: it can be built again.

    Attributes:
        trains_gamma: training moves γ; False where γ is a constant of the architecture.
    """

    trains_gamma: ClassVar[bool] = True

    def __init_subclass__(cls, **options: Any) -> None:
        """Weights are drawn when no other thread trains."""
        super().__init_subclass__(**options)
        if "__init__" in vars(cls):
            cls.__init__ = drawing_alone(cls.__init__)  # type: ignore[method-assign]

    def config(self) -> dict[str, Any]:
        """Arguments that build this architecture again, from attributes of the same names."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    @abc.abstractmethod
    def reset_parameters(self) -> None:
        """Draw fresh parameters from torch's global generator."""


def graph_of(
    x: Tensor | GraphLike, edge_index: Tensor | None = None, edge_weight: Tensor | None = None
) -> Graph:
    """What a model is called with: a `Data`; or features [N, F], edges [2, E] and weights [E]."""
    if not isinstance(x, Tensor):
        return unlabelled(x)
    if edge_index is None:
        raise InvalidGraphError("edge_index", "none", "edges [2, E] beside features")
    return Graph(x, edge_index, edge_weight)
