"""Run a network on the fields of a graph that it asks for, and see what it decides."""

import copy
import inspect
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from matcha_gnn.errors import (
    IncompatibleError,
    InvalidArgumentError,
    InvalidGraphError,
    MatchaError,
)
from matcha_gnn.gamma.networks.sites import is_linear
from matcha_gnn.graphs.matrices import edges_of, is_matrix, matrix_of
from matcha_gnn.graphs.memory import Graph
from matcha_gnn.kernels.devices import HALF, device_of
from matcha_gnn.monitoring.memory import available_memory
from matcha_gnn.network.arguments import (
    bound,
    missing,
    required,
    signature_of,
    takes_data,
    takes_field,
)
from matcha_gnn.network.outputs import read_output
from matcha_gnn.network.patches import Patch
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


def to_full_precision(net: nn.Module) -> None:
    """Make weights in half precision float32, in place: the evidence needs more digits."""
    net._apply(lambda part: part.float() if part.dtype in HALF else part)  # type: ignore[no-untyped-call]


def densified(name: str, x: Tensor) -> Tensor:
    """Features as a dense matrix; refused where there is no room for it.

    Args:
        name: of the network that needs them, for the error.
        x: dense or sparse, [N, F].
    """
    if x.layout == torch.strided:
        return x
    needed = x.shape[0] * x.shape[1] * x.dtype.itemsize
    free_bytes = device_of(x).free_bytes
    free = available_memory() if free_bytes is None else free_bytes(x.device)
    # Some systems do not say how much is free.
    if 0 < free < needed:
        raise IncompatibleError(
            f"{name} cannot run on sparse features, and dense ones take {needed / 1e9:,.1f} GB, "
            f"where {free / 1e9:,.1f} GB are free"
        )
    return x.to_dense()


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


def call(net: nn.Module, graph: Graph, x: Tensor) -> Any:
    """The network's answer; an error inside it is reported in one line.

    Args:
        net: takes fields of a graph by name, or a `Data`.
        graph: its edges and further fields are given.
        x: features in the network's precision.
    """
    fields = _fields(net, graph, x)
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
        _require_features(net, x.shape[1], reason)
        # Of some errors the text says nothing without the type: KeyError: 'edge_attr'.
        if isinstance(error, KeyError) or not reason:
            reason = f"{type(error).__name__}: {reason}"
        raise IncompatibleError(
            f"{_name(net)} failed on this graph: {reason}{_given_edges(net, fields)}"
        ) from error


def _require_features(net: nn.Module, features: int, reason: str) -> None:
    """Raise InvalidGraphError where a network has failed because it takes other features.

    Args:
        net: that failed.
        features: F of the graph.
        reason: what torch said.
    """
    shapes = re.search(r"\(\d+x(\d+) and (\d+)x\d+\)", reason)
    first = next(((n, m) for n, m in net.named_modules() if is_linear(m)), None)
    if shapes is None or first is None:
        return
    name, layer = first
    taken = layer.weight.shape[1]
    if [int(size) for size in shapes.groups()] == [features, taken]:
        allowed = f"{taken}, as the layer {name} of {_name(net)} takes"
        raise InvalidGraphError("graph.x", f"{features} features", allowed)


def _fields(net: nn.Module, graph: Graph, x: Tensor) -> dict[str, Any]:
    """What a network can be given, by name; PyG's `adj_t` is made where it is asked for."""
    fields = {"x": x, "edge_index": graph.edge_index, **graph.extras.values(x.dtype)}
    weight = None if graph.edge_weight is None else graph.edge_weight.to(x.dtype)
    signature = signature_of(net)
    asks_matrix = "adj_t" in signature.parameters and not takes_data(signature)
    if asks_matrix and "adj_t" not in (*fields, *graph.extras.withheld):
        ones = torch.ones(graph.edge_index.shape[1], dtype=x.dtype, device=x.device)
        entries = ones if weight is None else weight
        fields["adj_t"] = matrix_of(graph.edge_index, graph.num_nodes, entries)
    if weight is not None and takes_edge_weight(net):
        fields["edge_weight"] = weight
    elif weight is not None and not asks_matrix:
        raise IncompatibleError(f"the graph has edge weights, and {_name(net)} takes none")
    return fields


def _call_with_data(net: nn.Module, fields: dict[str, Any], withheld: Mapping[str, str]) -> Any:
    from matcha_gnn.network.network_data import NetworkData, missing_field

    refused = {name: missing(net, name, fields, withheld) for name in withheld}
    try:
        return net(NetworkData(fields, refused))
    except AttributeError as error:
        name = missing_field(error)
        if name is None:
            raise
        raise IncompatibleError(missing(net, name, fields, withheld)) from error


def _given_edges(net: nn.Module, fields: Mapping[str, Any]) -> str:
    """A hint where a parameter was given `edge_index` for want of a field of its name."""
    signature = signature_of(net)
    unnamed = [name for name in required(signature) if name not in fields and name != "num_nodes"]
    if "edge_index" in signature.parameters or takes_data(signature) or not unnamed:
        return ""
    return (
        f" ({unnamed[-1]!r} was given edge_index: where the network needs something else, such as "
        f"a sparse matrix, put it into the Data as {unnamed[-1]!r})"
    )


def takes_edge_weight(net: nn.Module) -> bool:
    """Whether edge weights can be given to a network, in a `Data` if it takes one."""
    return takes_field(signature_of(net), "edge_weight")


class Given(NamedTuple):
    """Nodes and edges that a network was called with."""

    num_nodes: int
    edges: Tensor
    weight: Tensor | None


def given_graph(arguments: Mapping[str, Any]) -> Given:
    """The graph among a network's arguments, by name: its own, or those of a `Data`."""
    first, *others = arguments.values()
    if hasattr(first, "edge_index"):
        weight = getattr(first, "edge_weight", None)
        return Given(first.x.shape[0], first.edge_index, weight)
    num_nodes = arguments.get("x", first).shape[0]
    edges = arguments.get("edge_index", arguments.get("adj_t", others[0] if others else None))
    edges = edges_of(edges) if is_matrix(edges, num_nodes) else edges
    return Given(num_nodes, edges, arguments.get("edge_weight"))


def representation_of(
    net: nn.Module,
    head: Head,
    run: Run,
    graph: Graph,
    seeds: int | None = None,
    classes: int | None = None,
) -> Tensor:
    """Z [N, D]: what entered the head, or the logits that `read_output` finds.

    Args:
        net: the network.
        head: its classifying layer.
        run: what the network made of the graph.
        graph: what it ran on.
        seeds: rows that count, the first ones; all by default. A network may return them alone.
        classes: how many there are, where that is known; see `read_output`.
    """
    if head.path is None:
        output, rows = run.output, graph.num_nodes
        if seeds is not None and isinstance(output, Tensor) and output.shape[:1] == (seeds,):
            rows = seeds
        edges = graph.edge_index.shape[1]
        return read_output(_name(net), output, rows, edges, classes).logits[:seeds]
    if len(run.entered) != 1:
        got = f"{head.path!r} (called {len(run.entered)} times by {_name(net)})"
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
        f"what {_name(net)} returns is not what its head {head.path!r} gives: something follows "
        "the head; name the last layer, or none (head=None) if the network ends in propagation"
    )


def _shape(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"a tensor of shape {list(value.shape)}"
    return f"a {type(value).__name__}"


def _name(net: nn.Module) -> str:
    return type(net).__name__
