"""A classifier of nodes as the core sees it: class probabilities on a graph.

`Network` is the interface. `ModuleNetwork` calls a PyTorch module as its `forward` asks, whole or
through a loader. A module that is a `Network` itself, such as the backbones with hop weights, is
taken as it is. `GivenNetwork` has no module: probabilities that were made elsewhere, or a function
that makes them.
"""

import abc
import copy
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from matcha_gnn.errors import (
    IncompatibleError,
    InvalidArgumentError,
    InvalidGraphError,
    require_flag,
    require_kind,
)
from matcha_gnn.graphs.extras import Extras
from matcha_gnn.graphs.memory import FLOATS, Graph, GraphLike, unlabelled
from matcha_gnn.kernels.softmax import class_softmax
from matcha_gnn.network.batches import Batches, Loader, collected
from matcha_gnn.network.calling import call, densified, read_output
from matcha_gnn.network.modules import fingerprint, first_non_finite, private_copy, unwrapped
from matcha_gnn.typing import Probs

logger = logging.getLogger(__name__)

ALLOWED = (
    "a trained torch.nn.Module such as a PyG network, class probabilities [N, C], or a function "
    "of a graph that returns them"
)
SUMS_TO_ONE = 1e-3
"""How far a row of given probabilities may be from a sum of 1: half precision is."""
LEAST = 1e-30
"""Probabilities below it have no logarithm in float32."""


class Network(nn.Module, abc.ABC):
    """What gives class probabilities on checked graphs.

    Attributes:
        source: what the labelled graph taught, where it travels with the network.
        class_names: where they were saved with it, [C]; or empty.
        reruns: it can be run on other graphs than the one that it was given for.
        origin: the fingerprint that it had when it was given, where it has weights.
    """

    source: Any = None
    class_names: tuple[str, ...] = ()
    reruns: bool = True
    origin: Tensor | None = None

    @property
    def name(self) -> str:
        """What messages call it."""
        return type(self).__name__

    @property
    def title(self) -> str:
        """What sentences call it."""
        return f"this {self.name}"

    @property
    @abc.abstractmethod
    def fingerprint(self) -> Tensor | None:
        """A hash by which a source summary knows its network, uint8 [16]; None if unknown."""

    @abc.abstractmethod
    def logits(self, graph: Graph) -> Tensor:
        """Logits on a checked graph, [N, C], with gradients to its parameters."""

    @torch.no_grad()
    def probs(self, graph: Graph) -> Probs:
        """Class probabilities in evaluation mode, [N, C]."""
        with evaluating(self):
            return class_softmax(self.logits(graph))

    def expect(self, classes: int | None) -> None:
        """Be told how many classes there are, to read outputs by; None where unknown."""

    def statistics(
        self, graph: Graph, labels: Tensor, trained: Tensor, held_out: Tensor, classes: int
    ) -> Mapping[str, Tensor]:
        """What the network's own room keeps of the source graph, by name; none by default."""
        return {}

    def further_tensors(self) -> Mapping[str, Tensor]:
        """Tensors beside parameters, buffers and the summary, to be checked; none by default."""
        return {}

    def accept(self, x: Tensor) -> Tensor:
        """Features [N, F] in the network's precision, or an error that says what does not fit."""
        return x

    def forward(
        self,
        x: Tensor | GraphLike,
        edge_index: Tensor | None = None,
        edge_weight: Tensor | None = None,
        **fields: Any,
    ) -> Tensor:
        """Logits [N, C], in both of PyG's calling conventions.

        Args:
            x: features, [N, F]; or a `Data`, and nothing else.
            edge_index: senders and receivers, [2, E].
            edge_weight: [E], or None for ones.
            fields: further fields that a network asks for, such as `edge_attr`.
        """
        if not isinstance(x, Tensor):
            return self.logits(unlabelled(x))
        if edge_index is None:
            raise InvalidGraphError("edge_index", "none", "edges [2, E] beside features")
        extras = Extras.of(fields, x, edge_index.shape[1])
        return self.logits(Graph(x, edge_index, edge_weight, extras))

    def frozen(self) -> Self:
        """In evaluation mode with no parameter asking for gradients."""
        return self.eval().requires_grad_(False)


class ModuleNetwork(Network):
    """A private copy of a module, called with the fields of a graph that its `forward` names.

    Attributes:
        net: the copy, in evaluation mode and without cached graphs.
        classes: how many the source shows, to tell logits from other outputs; None where unknown.
        batches: of the network's own loader, where it runs through one.
    """

    classes: int | None = None
    batches: Batches | None = None

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.hold(net)

    net: nn.Module

    def hold(self, net: nn.Module) -> None:
        """Keep a copy of a module."""
        self.net = private_copy(net)
        self.origin = self.fingerprint
        self._needs_dense = False

    @property
    def name(self) -> str:
        """The class of the module."""
        return type(self.net).__name__

    @property
    def fingerprint(self) -> Tensor | None:
        """The module's."""
        return fingerprint(unwrapped(self.net).state_dict())

    def expect(self, classes: int | None) -> None:
        """Tell logits from other outputs by their width."""
        self.classes = classes

    @property
    def like(self) -> Tensor:
        """A tensor of the module's precision and device."""
        floats = (part for part in self.net.parameters() if part.is_floating_point())
        return next(floats, torch.zeros(()))

    def accept(self, x: Tensor) -> Tensor:
        """The features in the network's precision; how many it takes only a summary says."""
        features = None if self.source is None else self.source.num_features
        if features not in (None, x.shape[1]):
            allowed = f"{features}, as the source summary says"
            raise InvalidGraphError("graph.x", f"{x.shape[1]} features", allowed)
        like = self.like
        if x.device != like.device:
            raise IncompatibleError(f"graph is on {x.device}, {self.name} on {like.device}")
        return x.to(like.dtype)

    def logits(self, graph: Graph) -> Tensor:
        """What the module returns, read as logits, [N, C]."""
        return self.rows(graph, self._read)

    def rows(self, graph: Graph, read: Callable[[Graph, int | None], Tensor]) -> Tensor:
        """Rows [N, D] that are read from whole runs, or from the batches of a loader.

        Args:
            graph: checked.
            read: takes a graph, and how many of its first rows count; all for None.
        """
        batches = None if self.batches is None else self.batches.of(graph)
        if batches is None:
            return read(graph, None)
        parts, seeds = [], []
        for batch in batches:
            parts.append(read(batch.graph, len(batch.seeds)))
            seeds.append(batch.seeds)
        return collected(parts, seeds, graph.num_nodes)

    def _read(self, graph: Graph, seeds: int | None) -> Tensor:
        output, rows = self.answer(graph), graph.num_nodes
        if seeds is not None and isinstance(output, Tensor) and output.shape[:1] == (seeds,):
            rows = seeds
        edges = graph.edge_index.shape[1]
        return read_output(self.name, output, rows, edges, self.classes)[:seeds]

    def answer(self, graph: Graph, begin: Callable[[], object] = lambda: None) -> Any:
        """What the module returns; on dense features where it has failed on sparse ones.

        Args:
            graph: checked.
            begin: called before each try.
        """
        x = self.accept(graph.x)
        begin()
        if not self._needs_dense:
            try:
                return call(self.net, graph, x)
            except IncompatibleError as error:
                if x.layout == torch.strided:
                    raise
                logger.debug("%s is tried with dense features: %s", self.name, error)
        begin()
        answer = call(self.net, graph, densified(self.name, x))
        self._needs_dense = True
        return answer


class GivenNetwork(Network):
    """Probabilities that were made elsewhere, [N, C], or a function of a graph that makes them.

    Args:
        given: a tensor or an array of probabilities, or a function.
        logits: they are logits instead.
    """

    def __init__(self, given: Any, logits: bool = False) -> None:
        super().__init__()
        self.given, self.are_logits = given, logits
        self.reruns = callable(given)

    @property
    def name(self) -> str:
        """The name of the function."""
        if not self.reruns:
            return "given probabilities"
        return str(getattr(self.given, "__name__", type(self.given).__name__))

    @property
    def title(self) -> str:
        """What sentences call them."""
        return self.name if self.reruns else "these probabilities"

    @property
    def fingerprint(self) -> None:
        """None: nothing is known of what made them."""
        return None

    def logits(self, graph: Graph) -> Tensor:
        """Their logarithms, [N, C]."""
        given = self.given(as_data(graph)) if self.reruns else self.given
        values = self._checked(given, graph)
        return values if self.are_logits else values.clamp_min(LEAST).log()

    def _checked(self, given: Any, graph: Graph) -> Tensor:
        argument = "model" if not self.reruns else f"model ({self.name})"
        try:
            values = torch.as_tensor(np.asarray(given) if not isinstance(given, Tensor) else given)
        except (TypeError, ValueError) as error:
            raise InvalidArgumentError(argument, f"a {type(given).__name__}", ALLOWED) from error
        values = values.detach().to(graph.device)
        if values.dim() != 2 or len(values) != graph.num_nodes or values.shape[1] < 2:
            allowed = f"[{graph.num_nodes}, C], one row for each node and C >= 2 classes"
            raise InvalidArgumentError(argument, f"shape {list(values.shape)}", allowed)
        if not values.is_floating_point():
            raise InvalidArgumentError(argument, str(values.dtype), "class probabilities in floats")
        values = values if values.dtype == torch.float64 else values.float()
        if not bool(values.isfinite().all()):
            row = int((~values.isfinite()).any(1).nonzero()[0, 0])
            raise InvalidArgumentError(argument, f"NaN or infinity in row {row}", "finite numbers")
        wrong = ((values.sum(1) - 1).abs() > SUMS_TO_ONE) | (values < 0).any(1)
        if not self.are_logits and bool(wrong.any()):
            row = int(wrong.nonzero()[0, 0])
            shown = ", ".join(f"{value:.3g}" for value in values[row, :5].tolist())
            allowed = "rows of probabilities that sum to 1; logits=True takes logits"
            raise InvalidArgumentError(argument, f"row {row}: {shown}", allowed)
        return values


def as_data(graph: Graph) -> Any:
    """The view that a function is given: a PyG `Data` without labels."""
    from matcha_gnn.network.network_data import whole_data

    return whole_data(graph)


def as_network(
    model: object, graph: object, loader: Loader | None = None, *, logits: bool = False
) -> Network:
    """The one private copy of what a caller classifies nodes with.

    Args:
        model: a module, a `Network`, class probabilities [N, C], or a function that makes them.
        graph: what it will run on; a loader samples from it.
        loader: through which a module runs; see `Batches`.
        logits: given numbers are logits.

    Raises:
        InvalidArgumentError: no classifier.
    """
    require_flag("logits", logits)
    if isinstance(model, nn.Module):
        if logits:
            raise InvalidArgumentError("logits", True, "False with a network: its output is read")
        network = copied(model) if isinstance(model, Network) else ModuleNetwork(model)
        return network if loader is None else _with_loader(network, graph, loader)
    if loader is not None:
        raise InvalidArgumentError("loader", "one for given probabilities", "one for a network")
    if callable(model) and not isinstance(model, type):
        return GivenNetwork(model, logits)
    if isinstance(model, Tensor | np.ndarray) or hasattr(model, "__array__"):
        return GivenNetwork(model, logits)
    require_kind("model", model, nn.Module, ALLOWED)
    raise AssertionError("unreachable")


def copied(network: Network) -> Network:
    """A copy to be changed; what the source left, which nobody changes, is shared."""
    return copy.deepcopy(network, {id(network.source): network.source})


def _with_loader(network: Network, graph: object, loader: Loader) -> Network:
    if not isinstance(network, ModuleNetwork):
        raise InvalidArgumentError("loader", f"one for {network.name}", "one for a PyG network")
    view: GraphLike = graph  # type: ignore[assignment]
    network.batches = Batches(loader, unlabelled(view))
    return network


def require_precision(network: Network) -> None:
    """Refuse a model with weights in another precision than float32 and float64."""
    for parameter in network.parameters():
        if parameter.is_floating_point() and parameter.dtype not in FLOATS:
            allowed = "float32 or float64 weights; model.float() makes them float32"
            raise InvalidArgumentError("model", f"parameters in {parameter.dtype}", allowed)


def require_finite(network: Network) -> None:
    """Refuse a model that carries a NaN or an infinity, and name the tensor."""
    carried: dict[str, Tensor] = dict(network.named_parameters()) | dict(network.named_buffers())
    if network.source is not None:
        summary: dict[str, Tensor] = network.source.tensors()
        carried |= {f"source_summary.{name}": tensor for name, tensor in summary.items()}
    name = first_non_finite({**carried, **network.further_tensors()})
    if name is not None:
        got = f"NaN or infinite entries in {name}"
        raise InvalidArgumentError("model", got, "finite numbers")


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Evaluation mode inside the block; each module is put back into its own mode."""
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training
