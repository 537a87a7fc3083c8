"""Step 3: a backbone says how hops become a representation, and which numbers mix them."""

import abc
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self

import torch
from torch import Tensor, nn

from matcha_gnn.errors import IncompatibleError, InvalidGraphError
from matcha_gnn.graphs.memory import Graph, content_hash
from matcha_gnn.hops import Hops, HopsKey
from matcha_gnn.kernels import Adjacency, filter_hops, one_hop, propagate
from matcha_gnn.typing import Coefficients, HopStack, Repr

if TYPE_CHECKING:
    from matcha_gnn.evidence.summary import SourceSummary


class Backbone(nn.Module, abc.ABC):
    """A node classifier with a few numbers γ that say how far a node looks, and a head on Z.

    The usual case is a filter: Z = Σ_k c_k(γ) H_k with H_k = P^k encode(X). A subclass gives
    `encode`, and may override `coefficients` where c is not γ itself. A model whose hops are no
    powers of P, or whose Z is not linear in cached hops, overrides `layers`.

    Attributes:
        gamma: the hop-aggregation parameters, what adaptation moves.
        head: the linear classifier on Z.
        num_hops: K.
        norm: the batch norm inside the encoder, or None.
        source: what training recorded of the source graph, or None before training.
        artefacts: what training put in for a base method, by the method's name.
        mixes_linearly: Z is linear in c for fixed hops, so adaptation needs sums only. Otherwise
            `hops` gives Z itself as the one hop there is, and K = 0.
        is_filter: Z mixes linearly, and the hops are P^k encode(X).
        trains_gamma: source training moves γ; False where γ is a constant of the architecture.
    """

    mixes_linearly: bool = True
    is_filter: bool = True
    trains_gamma: ClassVar[bool] = True
    gamma: nn.Parameter
    head: nn.Linear
    num_hops: int
    in_channels: int
    norm: nn.BatchNorm1d | None
    source: "SourceSummary | None" = None

    def __init__(self) -> None:
        super().__init__()
        self.norm = None
        self.artefacts: dict[str, dict[str, Tensor]] = {}

    @property
    def name(self) -> str:
        """What messages call this architecture."""
        return type(self).__name__

    @abc.abstractmethod
    def encode(self, x: Tensor) -> Repr:
        """What the model makes of nodes by themselves, [N, D]; for a filter H_0."""

    def own_features(self, graph: Graph) -> Tensor:
        """What is known of nodes by themselves, no edge seen, [N, D'].

        The own logits, unless the model has something before its first non-linearity: that is
        closer to Gaussian, and an offset of all features is an offset there.
        """
        logits: Tensor = self.head(self.encode(self.accept(graph.x)))
        return logits

    def own_logits(self, own: Tensor) -> Tensor:
        """From `own_features` to logits, [N, C]."""
        return own

    @property
    def takes_offset(self) -> bool:
        """Whether `move` can take an offset of own features."""
        return False

    @property
    def takes_intercept(self) -> bool:
        """Whether `move` can take an intercept."""
        return False

    def move(self, *, offset: Tensor | None = None, intercept: Tensor | None = None) -> None:
        """Change the model in place.

        Args:
            offset: taken off the own features of every node, [D'].
            intercept: added to the logits, [C].
        """
        raise IncompatibleError(f"{self.name}: only its γ can be moved")

    def before_norm(self, x: Tensor) -> Tensor:
        """The encoder up to its batch norm, [N, D]; for models that have one."""
        raise IncompatibleError(f"{self.name} has no batch norm in its encoder")

    def after_norm(self, h: Tensor) -> Repr:
        """The encoder from its batch norm on, [N, D]; for models that have one."""
        raise IncompatibleError(f"{self.name} has no batch norm in its encoder")

    @abc.abstractmethod
    def config(self) -> dict[str, Any]:
        """Arguments that build this architecture again, as JSON values."""

    @abc.abstractmethod
    def reset_parameters(self) -> None:
        """Draw fresh parameters from torch's global generator."""

    def coefficients(self, gamma: Tensor) -> Coefficients:
        """c(γ), the weight of each hop, [K+1]; differentiable in γ."""
        return gamma

    @property
    def gamma_is_coefficients(self) -> bool:
        """Whether γ are the hop weights themselves, so that any weights can be reached."""
        return self.mixes_linearly and type(self).coefficients is Backbone.coefficients

    def gamma_gradient(self, gamma: Tensor, coef_gradient: Tensor) -> Tensor:
        """Carry a gradient in c back to γ; a subclass with its own `coefficients` needs its own."""
        return coef_gradient.to(gamma)

    def encoder_parameters(self) -> list[nn.Parameter]:
        """θ: the parameters that decide H_0, in a fixed order."""
        outside = {id(self.gamma), *(id(p) for p in self.head.parameters())}
        return [p for p in self.parameters() if id(p) not in outside]

    def hops(self, graph: Graph, *, keyed: bool = True) -> Hops:
        """H_0 … H_K on a graph.

        Args:
            graph: a checked graph.
            keyed: record what they were made from, so that they can be handed to `adapt` later.
                Hashing reads the features once; hops that are used on the spot can go without.
        """
        if graph.make_hops is not None:
            made: Hops = graph.make_hops(self)
            return made
        return Hops(self._stack(graph), self.hops_key(graph) if keyed else None, graph.shard)

    def hops_key(self, graph: Graph) -> HopsKey:
        """Content hashes of the graph and of all that decides the hops in this model."""
        encoder = [*self.encoder_parameters(), *self.buffers(), torch.tensor(self.num_hops)]
        gamma = [] if self.mixes_linearly else [self.gamma]
        return HopsKey(graph.fingerprint, content_hash(*encoder, *gamma))

    def constants(self, graph: Graph) -> Any:
        """What `representation` can use again as long as only γ moves; None for nothing."""
        return None

    def representation(self, graph: Graph, constants: Any = None) -> Repr:
        """Z with gradients to every parameter, [N, D].

        Args:
            graph: a checked graph.
            constants: from `constants`, for models that have some; parameters that decided them
                get no gradient then.
        """
        return self.filtered(self.accept(graph.x), graph.adjacency)

    def layers(self, x: Tensor, hop: Callable[[Tensor], Tensor]) -> list[Repr]:
        """What c mixes to Z, each [N, D], from checked features and any way to take a hop.

        A model whose Z is not linear in such layers gives Z as the only one.
        """
        hops = [self.encode(x)]
        for _ in range(self.num_hops):
            hops.append(hop(hops[-1]))
        return hops

    def mixed(self, layers: list[Repr]) -> Repr:
        """Z of the layers at the model's γ, [N, D]."""
        if not self.mixes_linearly:
            return layers[0]
        return torch.stack(layers, -1) @ self.coefficients(self.gamma)

    @property
    def is_its_layers(self) -> bool:
        """Whether `layers` says all of the model: nothing else decides Z."""
        kind = type(self)
        if kind.layers is not Backbone.layers:
            return True
        parts = ("representation", "filtered", "stack", "_stack")
        return all(getattr(kind, part) is getattr(Backbone, part) for part in parts)

    def filtered(self, x: Tensor, adjacency: Adjacency) -> Repr:
        """`representation` for features that are already checked."""
        if type(self).layers is Backbone.layers:
            return filter_hops(adjacency, self.encode(x), self.coefficients(self.gamma))
        return self.mixed(self.layers(x, partial(one_hop, adjacency)))

    def stack(self, x: Tensor, adjacency: Adjacency) -> HopStack:
        """H_0 … H_K for features that are already checked, [N, K+1, D]."""
        if type(self).layers is not Backbone.layers:
            return torch.stack(self.layers(x, partial(one_hop, adjacency)), 1)
        if self.mixes_linearly:
            return propagate(adjacency, self.encode(x), self.num_hops)
        return self.filtered(x, adjacency)[:, None]

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Logits, [N, C], in PyG's calling convention.

        Args:
            x: features, [N, F].
            edge_index: senders and receivers, [2, E].
            edge_weight: [E], or None for ones.
        """
        adjacency = Adjacency.normalised(edge_index, x.shape[0], edge_weight, x.dtype)
        logits: Tensor = self.head(self.filtered(x, adjacency))
        return logits

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
        self.artefacts = {
            method: {name: fn(part) for name, part in parts.items()}
            for method, parts in self.artefacts.items()
        }
        return self

    def frozen(self) -> Self:
        """In evaluation mode with no parameter asking for gradients."""
        return self.eval().requires_grad_(False)

    @torch.no_grad()
    def _stack(self, graph: Graph) -> Tensor:
        was_training = self.training
        if was_training:
            self.eval()
        try:
            return self.stack(self.accept(graph.x), graph.adjacency)
        finally:
            if was_training:
                self.train()
