"""The layer of a network that classifies, and what enters it."""

import inspect
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from matcha_gnn.errors import IncompatibleError, InvalidArgumentError
from matcha_gnn.graphs.memory import Graph
from matcha_gnn.network.calling import read_output, required
from matcha_gnn.network.modules import Patch, is_linear
from matcha_gnn.registry import resolve

RTOL, ATOL = 1e-3, 1e-4


class OutputHead(nn.Linear):
    """The identity, for networks whose output is Z itself; as wide as the output."""

    def __init__(self) -> None:
        nn.Module.__init__(self)
        self.register_parameter("bias", None)
        self.register_buffer("weight", torch.empty(0, 0), persistent=False)
        self.in_features = self.out_features = 0

    def widen(self, classes: int, like: Tensor) -> None:
        """Take the width of an output [N, C], with the precision and device of a tensor."""
        self.in_features = self.out_features = classes
        self.weight = torch.eye(classes).to(like)


class Head(NamedTuple):
    """The classifying layer.

    Attributes:
        path: in the network; None for its output.
        layer: as torch's linear layer where it is one, sharing its parameters.
    """

    path: str | None
    layer: nn.Module


def find_head(net: nn.Module, path: str | None) -> Head:
    """Look the head up; PyG's linear layer is dressed as torch's."""
    if path is None:
        return Head(None, OutputHead())
    modules = {name: module for name, module in net.named_modules() if name}
    layer = resolve("head", path, modules)
    if is_linear(layer) and layer.weight.shape[0] == 1:
        got = f"{path!r} (one logit)"
        raise InvalidArgumentError("head", got, "no head: the output is read as two classes")
    if len(required(inspect.signature(layer.forward))) != 1:
        got = f"{path!r} (a {type(layer).__name__}, which needs more than one input)"
        raise InvalidArgumentError("head", got, "a layer of each node alone, or None")
    if not isinstance(layer, nn.Linear) and is_linear(layer):
        weight, bias = layer.weight, layer.bias
        dressed = nn.Linear(1, 1, bias is not None)
        dressed.out_features, dressed.in_features = weight.shape
        dressed.weight, dressed.bias = weight, bias
        layer = dressed
    return Head(path, layer)


class Run(NamedTuple):
    """What a network returned, and what entered its head, once for each time it was called."""

    output: Any
    entered: list[Tensor]


def watch_head(net: nn.Module, head: Head, entered: list[Tensor]) -> Iterator[Patch]:
    """Note what enters the head."""
    if head.path is None:
        return
    module = net.get_submodule(head.path)
    forward = module.forward

    def noting(*arguments: Any, **options: Any) -> Any:
        entered.append(arguments[0] if arguments else next(iter(options.values())))
        return forward(*arguments, **options)

    yield Patch(module, "forward", noting)


def representation_of(
    net: nn.Module,
    head: Head,
    run: Run,
    graph: Graph,
    seeds: int | None = None,
    classes: int | None = None,
) -> Tensor:
    """Z [N, D]: what entered the head, or the logits that `read_output` finds.

    The first `seeds` rows count, all by default; a network may return them alone.
    """
    if head.path is None:
        output, rows = run.output, graph.num_nodes
        if seeds is not None and isinstance(output, Tensor) and output.shape[:1] == (seeds,):
            rows = seeds
        edges = graph.edge_index.shape[1]
        return read_output(type(net).__name__, output, rows, edges, classes)[:seeds]
    if len(run.entered) != 1:
        got = f"{head.path!r} (called {len(run.entered)} times by {type(net).__name__})"
        raise InvalidArgumentError("head", got, "a layer that is called once")
    z = run.entered[0]
    if not isinstance(z, Tensor) or z.dim() != 2 or len(z) != graph.num_nodes:
        got = f"{head.path!r} (given {_shape(z)})"
        allowed = f"a layer given one row for {graph.num_nodes} nodes"
        raise InvalidArgumentError("head", got, allowed)
    return z[:seeds]


def check_head_decides(net: nn.Module, head: Head, run: Run, z: Tensor) -> None:
    """Refuse a head whose answer is not the network's: something follows it."""
    if head.path is None or not isinstance(run.output, Tensor):
        return
    logits, output = head.layer(z), run.output
    if logits.shape == output.shape and (
        torch.allclose(logits.log_softmax(1), output.log_softmax(1), RTOL, ATOL)
        or torch.allclose(logits.softmax(1), output, RTOL, ATOL)
    ):
        return
    raise IncompatibleError(
        f"what {type(net).__name__} returns is not what its head {head.path!r} gives: "
        "something follows the head; name the last layer, or none (head=None) if the network ends "
        "in propagation"
    )


def _shape(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"a tensor of shape {list(value.shape)}"
    return f"a {type(value).__name__}"
