"""Run a network on the fields of a graph that it asks for, and see what it decides."""

import copy
import re
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from matcha_gnn.errors import (
    IncompatibleError,
    InvalidGraphError,
    MatchaError,
)
from matcha_gnn.graphs.matrices import matrix_of
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
from matcha_gnn.network.layers import is_linear

CACHES = ("_cached_edge_index", "_cached_adj_t", "_cached_x", "_cached_h")
"""Where PyG's layers keep the graph they saw first; with `cached=True` they answer from it."""


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


def _name(net: nn.Module) -> str:
    return type(net).__name__
