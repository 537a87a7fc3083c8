"""Run a network on the fields of a graph that it asks for, and see what it decides."""

import copy
import inspect
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from matcha_gnn.backbones.foreign.arguments import (
    bound,
    missing,
    required,
    signature_of,
    takes_data,
    takes_field,
)
from matcha_gnn.backbones.foreign.patches import Patch
from matcha_gnn.backbones.foreign.sites import is_linear
from matcha_gnn.errors import IncompatibleError, InvalidArgumentError, MatchaError
from matcha_gnn.graphs.memory import LocalGraph
from matcha_gnn.registry import resolve

CACHES = ("_cached_edge_index", "_cached_adj_t", "_cached_x", "_cached_h")
"""Where PyG's layers keep the graph they saw first; with `cached=True` they answer from it."""
RTOL, ATOL = 1e-3, 1e-4


class OutputHead(nn.Linear):
    """The identity, for networks whose output is Z itself; as wide as the output."""

    def __init__(self) -> None:
        nn.Module.__init__(self)
        self.register_parameter("bias", None)
        self.register_buffer("weight", torch.empty(0, 0), persistent=False)
        self.in_features = self.out_features = 0

    def widen(self, output: Tensor) -> None:
        """Take the width of an output [N, C]."""
        self.in_features = self.out_features = output.shape[1]
        self.weight = torch.eye(output.shape[1]).to(output)


class Head(NamedTuple):
    """The classifying layer.

    Attributes:
        path: in the network; None for its output.
        layer: as torch's linear layer where it is one, sharing its parameters.
    """

    path: str | None
    layer: nn.Module


def uncached_copy(net: nn.Module) -> nn.Module:
    """A copy in evaluation mode that has forgotten the graphs it saw."""
    copied = copy.deepcopy(net).eval()
    for module in copied.modules():
        if getattr(module, "cached", False) is True:
            setattr(module, "cached", False)  # noqa: B010 (not an attribute of every module)
        for name in CACHES:
            if getattr(module, name, None) is not None:
                setattr(module, name, None)
    return copied


def find_head(net: nn.Module, path: str | None) -> Head:
    """Look the head up; PyG's linear layer is dressed as torch's."""
    if path is None:
        return Head(None, OutputHead())
    modules = {name: module for name, module in net.named_modules() if name}
    layer = resolve("head", path, modules)
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
    """What a network made of a graph.

    Attributes:
        output: what it returned.
        entered: what entered the head, once for each time that it was called.
    """

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


def call(net: nn.Module, graph: LocalGraph, x: Tensor) -> Any:
    """The network's answer; an error inside it is reported in one line.

    Args:
        net: takes fields of a graph by name, or a `Data`.
        graph: its edges and further fields are given.
        x: features in the network's precision.
    """
    fields = {"x": x, "edge_index": graph.edge_index, **graph.extras.values(x.dtype)}
    if graph.edge_weight is not None:
        fields["edge_weight"] = graph.edge_weight.to(x.dtype)
        if not takes_edge_weight(net):
            raise IncompatibleError(f"the graph has edge weights, and {_name(net)} takes none")
    withheld = graph.extras.withheld
    try:
        if takes_data(signature_of(net)):
            return _call_with_data(net, fields, withheld)
        given = bound(net, {**fields, "num_nodes": x.shape[0]}, withheld)
        return net(*given.args, **given.kwargs)
    except MatchaError:
        raise
    except Exception as error:
        reason = (str(error).splitlines() or [""])[0]
        # Of some errors the text says nothing without the type: KeyError: 'edge_attr'.
        if isinstance(error, KeyError) or not reason:
            reason = f"{type(error).__name__}: {reason}"
        raise IncompatibleError(f"{_name(net)} failed on this graph: {reason}") from error


def _call_with_data(net: nn.Module, fields: dict[str, Any], withheld: Mapping[str, str]) -> Any:
    from matcha_gnn.backbones.foreign.network_data import NetworkData, missing_field

    refused = {name: missing(net, name, fields, withheld) for name in withheld}
    try:
        return net(NetworkData(fields, refused))
    except AttributeError as error:
        name = missing_field(error)
        if name is None:
            raise
        raise IncompatibleError(missing(net, name, fields, withheld)) from error


def takes_edge_weight(net: nn.Module) -> bool:
    """Whether edge weights can be given to a network, in a `Data` if it takes one."""
    return takes_field(signature_of(net), "edge_weight")


def edges_given(arguments: Mapping[str, Any]) -> tuple[Tensor, Tensor | None]:
    """Edges and weights among a network's arguments, by name: its own, or those of a `Data`."""
    if "edge_index" in arguments:
        return arguments["edge_index"], arguments.get("edge_weight")
    first, *others = arguments.values()
    if hasattr(first, "edge_index"):
        return first.edge_index, getattr(first, "edge_weight", None)
    return others[0], arguments.get("edge_weight")


def representation_of(net: nn.Module, head: Head, run: Run, num_nodes: int) -> Tensor:
    """Z [N, D]: what entered the head, or the output less its mean over classes.

    Softmax does not see that mean, and logits and log-probabilities differ in nothing else.
    """
    if head.path is None:
        output = checked_output(net, run.output, num_nodes)
        return output - output.mean(1, keepdim=True)
    if len(run.entered) != 1:
        got = f"{head.path!r} (called {len(run.entered)} times by {_name(net)})"
        raise InvalidArgumentError("head", got, "a layer that is called once")
    z = run.entered[0]
    if not isinstance(z, Tensor) or z.dim() != 2 or len(z) != num_nodes:
        got = f"{head.path!r} (given {_shape(z)})"
        raise InvalidArgumentError("head", got, f"a layer given one row for {num_nodes} nodes")
    return z


def checked_output(net: nn.Module, output: Any, num_nodes: int) -> Tensor:
    """Logits or log-probabilities, or a line that says what came instead."""
    if not isinstance(output, Tensor):
        raise IncompatibleError(
            f"{_name(net)} returns a {type(output).__name__}: name the classifying layer with "
            "head=, or give a network that returns logits"
        )
    if output.dim() != 2 or len(output) != num_nodes or output.shape[1] < 2:
        raise IncompatibleError(
            f"{_name(net)} returns {_shape(output)}, not logits of {num_nodes} nodes for two or "
            "more classes"
        )
    if bool((output >= 0).all()) and torch.allclose(
        output.sum(1), output.new_ones(()), rtol=0, atol=1e-4
    ):
        raise IncompatibleError(
            f"{_name(net)} returns probabilities: name the classifying layer with head=, or give "
            "a network that returns logits or log-probabilities"
        )
    return output


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
        f"what {_name(net)} returns is not what its head {head.path!r} gives: something follows "
        "the head; name the last layer, or none (head=None) if the network ends in propagation"
    )


def _shape(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"a tensor of shape {list(value.shape)}"
    return f"a {type(value).__name__}"


def _name(net: nn.Module) -> str:
    return type(net).__name__
