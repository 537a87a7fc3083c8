"""The interface of base test-time adaptation methods."""

import abc
import enum
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from matcha_gnn.errors import IncompatibleError
from matcha_gnn.gamma.hops import Hops, MixedSums
from matcha_gnn.gamma.methods.settings import Configured
from matcha_gnn.gamma.models import Backbone
from matcha_gnn.graphs.memory import Graph
from matcha_gnn.typing import ClassSums, FloatArray, HopWeights, Probs, Repr

State = Any
"""A method's state between two calls; the loop only passes it on."""
Prepared = Any
"""What a method computes once for a target graph; the loop only passes it on."""
Arrays = dict[str, Tensor]
"""A method's source state: tensors that training stores in the model file."""


class Modifies(enum.Enum):
    """What a method modifies for its prediction; the caller's model and graph never change."""

    NORM = "norm"
    HEAD = "head"
    ENCODER = "encoder"
    FEATURES = "features"
    EDGES = "edges"


class Prediction:
    """The prediction of a base method in one round.

    Args:
        probs: class probabilities, [N, C], detached.
        hops: the method's own hops where it modified the norm, encoder, features or edges; they
            enter the loss of `Matcha(features="base")`.
        mass: Σ_i probs[i, c], [C], where it is known already.
        class_sums: hops and their sums from `Hops.classify`, where they are known already.
    """

    def __init__(
        self,
        probs: Probs,
        hops: Hops | None = None,
        *,
        mass: FloatArray | None = None,
        class_sums: tuple[Hops, ClassSums | MixedSums] | None = None,
    ) -> None:
        self.probs, self.hops, self._mass, self._class_sums = probs, hops, mass, class_sums

    @property
    def mass(self) -> FloatArray:
        """Σ_i probs[i, c], [C]."""
        if self._mass is None:
            self._mass = self.probs.sum(0, dtype=torch.float64).cpu().numpy()
        return self._mass

    @cached_property
    def labels(self) -> Tensor:
        """The most probable class of each node, [N]."""
        return self.probs.argmax(1)

    @property
    def finite(self) -> bool:
        """Whether every probability is a finite number."""
        return bool(np.isfinite(self.mass).all())

    @property
    def class_shares(self) -> FloatArray:
        """Mean prediction, [C]."""
        return self.mass / self.probs.shape[0]

    def class_sums(self, view: "View") -> ClassSums:
        """Σ_i probs[i, c] H_k[i] of the view's hops, [C, K+1, D]."""
        sums = self._sums_over(view.hops)
        if sums is None or isinstance(sums, MixedSums):
            sums = view.hops.class_sums(self.probs)
            self._class_sums = view.hops, sums
        return sums

    def between_slope(self, view: "View", min_share: float) -> FloatArray:
        """B c of the view's hops at its hop weights c, [K+1]; see `Hops.between_slope`."""
        sums = self._sums_over(view.hops)
        of_other = isinstance(sums, MixedSums) and not np.array_equal(
            sums.hop_weights, view.hop_weights_array
        )
        if sums is None or of_other:
            sums = view.hops.sums(view.hop_weights, self.probs)
            self._class_sums = view.hops, sums
        return view.hops.between_slope(
            view.hop_weights_array, self.probs, self.mass, sums, min_share
        )

    def _sums_over(self, hops: Hops) -> ClassSums | MixedSums | None:
        if self._class_sums is None or self._class_sums[0] is not hops:
            return None
        return self._class_sums[1]

    def own_view(self, view: "View") -> "View":
        """The view with the method's own hops in place of the model's, where it has some."""
        return view if self.hops is None else replace(view, hops=self.hops)


@dataclass(frozen=True, eq=False)
class View:
    """The model at the current γ on the target graph, without labels.

    Attributes:
        model: a private copy in evaluation mode; read it, do not change it.
        graph: the target graph without labels.
        hops: its cached hops, [N, K+1, D].
        gamma: the current hop-aggregation parameters.
        seed: for methods that draw at random.
        sums: take class sums along with predictions; otherwise when a loss asks for them.
    """

    model: Backbone
    graph: Graph
    hops: Hops
    gamma: Tensor
    seed: int
    sums: bool = True

    @cached_property
    def hop_weights(self) -> HopWeights:
        """c(γ), [K+1]; one where Z is the only hop."""
        if self.hops.mixed:
            return self.gamma.new_ones(1)
        return self.model.hop_weights(self.gamma)

    @cached_property
    def hop_weights_array(self) -> FloatArray:
        """The same on the host, in float64."""
        return np.array(self.hop_weights.tolist())

    @cached_property
    def z(self) -> Repr:
        """The representation at the current γ, [N, D]."""
        return self.hops.mix(self.hop_weights)

    @cached_property
    def logits(self) -> Tensor:
        """The head on z, [N, C]."""
        logits: Tensor = self.model.head(self.z)
        return logits

    def classify(self) -> Prediction:
        """Softmax of the logits; for cached hops in one read, class sums included."""
        if not self.sums:
            probs, mass = self.hops.predict(self.hop_weights, self.model.head)
            return Prediction(probs, mass=mass)
        probs, sums, mass = self.hops.classify(self.hop_weights, self.model.head)
        return Prediction(probs, mass=mass, class_sums=(self.hops, sums))


class BaseMethod(Configured, abc.ABC):
    """A test-time adaptation method that Matcha can be put around.

    A method object does not change between calls: its state is returned by one call and passed to
    the next. It reads `view`, never labels, and does not print, move devices or copy the model.

    `prepare` runs once for a target graph and computes what does not depend on γ; `start` gives the
    state of a fresh run and should be cheap, as it is called in every round when the loop
    restarts methods; `predict` is one run. Only `predict` is required.

    Attributes:
        name: its name on the command line.
        draws_at_random: its prediction depends on the seed, so renumbering nodes changes it.
        needs_hops: it may read the hops one by one; False lets a model whose γ stays keep Z alone.
        keeps_state: what it does in a round may depend on the rounds before; False lets
            `Matcha(restart=False)` be refused, which would have no effect.
        needs_linear_head: it takes the classifier to be one linear layer.
    """

    name: ClassVar[str]
    draws_at_random: ClassVar[bool] = False
    needs_hops: ClassVar[bool] = True
    keeps_state: ClassVar[bool] = True
    needs_linear_head: ClassVar[bool] = False

    def run(self, network: Any, graph: Graph, class_names: tuple[str, ...] = ()) -> Any:
        """What `mg.adapt(..., strategy=method)` calls: the method alone, around the model as it is.

        Args:
            network: a private copy.
            graph: the target, without labels.
            class_names: [C], or empty.
        """
        from matcha_gnn.gamma.strategies.unadapted import Unadapted

        return Unadapted(self).run(network, graph, class_names)

    @property
    def modifies(self) -> frozenset[Modifies]:
        """What this method modifies: nothing; a subclass may set a frozenset instead."""
        return frozenset()

    def require(self, model: Backbone) -> None:
        """Raise IncompatibleError if the model lacks what this method needs."""
        head: nn.Module = model.head
        if self.needs_linear_head and not isinstance(head, nn.Linear):
            kind = type(head).__name__
            raise IncompatibleError(
                f"{self.name}: needs a linear head, but the head of {model.name} is a {kind}"
            )

    def source_arrays(
        self, model: Backbone, source: Graph, labels: Tensor, labelled: Tensor, seed: int
    ) -> Arrays:
        """Arrays of the source graph that travel with the model for this method; none by default.

        Args:
            model: the trained model.
            source: the source graph.
            labels: its classes, [N]; valid where labelled.
            labelled: bool [N].
            seed: for methods that draw at random.
        """
        return {}

    def prepare(self, view: View) -> Prepared:
        """What depends on the target graph but not on γ, computed once."""
        return None

    def start(self, view: View, prepared: Prepared) -> State:
        """The state of a fresh run."""
        return prepared

    @abc.abstractmethod
    def predict(self, view: View, state: State) -> tuple[Prediction, State]:
        """One run of the method at the view's γ: its prediction, and its state afterwards."""
