"""Call a network with the fields of a graph that it asks for, and read what it returns.

| returned | read as |
|---|---|
| [N, C], C >= 2, any numbers | logits; log-probabilities are some |
| [N, C], C >= 2, rows of numbers >= 0 that sum to 1 | probabilities |
| [N, 1] or [N] | the logit of class 1 of two; its probability where all lie between 0 and 1 |
| a tuple or list | the first tensor in it with a row for each node, by the rules above |

Where the number of classes is known, a tensor with as many columns goes first.
"""

import inspect
import re
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from matcha_gnn.errors import IncompatibleError, InvalidGraphError, MatchaError
from matcha_gnn.graphs.extras import LABELS
from matcha_gnn.graphs.matrices import matrix_of
from matcha_gnn.graphs.memory import Graph
from matcha_gnn.kernels.devices import device_of
from matcha_gnn.network.modules import is_linear, unwrapped

ATOL = 1e-4
"""How far the sum of a row of probabilities may be from 1."""


def call(net: nn.Module, graph: Graph, x: Tensor) -> Any:
    """The network's answer; an error inside it is reported in one line.

    Args:
        net: takes fields of a graph by name, or a `Data`.
        graph: its edges and further fields are given.
        x: features in the network's precision.
    """
    signature = signature_of(net)
    fields = _fields(net, signature, graph, x)
    withheld = graph.extras.withheld
    try:
        if takes_data(signature):
            return _call_with_data(net, fields, withheld)
        given = _bound(net, signature, {**fields, "num_nodes": x.shape[0]}, withheld)
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
            f"{type(net).__name__} failed on this graph: {reason}{_given_edges(signature, fields)}"
        ) from error


def _fields(
    net: nn.Module, signature: inspect.Signature, graph: Graph, x: Tensor
) -> dict[str, Any]:
    """What a network can be given, by name; PyG's `adj_t` is made where it is asked for."""
    fields = {"x": x, "edge_index": graph.edge_index, **graph.extras.values(x.dtype)}
    weight = None if graph.edge_weight is None else graph.edge_weight.to(x.dtype)
    asks_matrix = "adj_t" in signature.parameters and not takes_data(signature)
    if asks_matrix and "adj_t" not in (*fields, *graph.extras.withheld):
        ones = torch.ones(graph.edge_index.shape[1], dtype=x.dtype, device=x.device)
        entries = ones if weight is None else weight
        fields["adj_t"] = matrix_of(graph.edge_index, graph.num_nodes, entries)
    if weight is not None and takes_edge_weight(net):
        fields["edge_weight"] = weight
    elif weight is not None and not asks_matrix:
        raise IncompatibleError(f"the graph has edge weights, and {type(net).__name__} takes none")
    return fields


def _call_with_data(net: nn.Module, fields: dict[str, Any], withheld: Mapping[str, str]) -> Any:
    from matcha_gnn.network.network_data import NetworkData, missing_field

    refused = {name: _missing(net, name, fields, withheld) for name in withheld}
    try:
        return net(NetworkData(fields, refused))
    except AttributeError as error:
        name = missing_field(error)
        if name is None:
            raise
        raise IncompatibleError(_missing(net, name, fields, withheld)) from error


def _bound(
    net: nn.Module,
    signature: inspect.Signature,
    fields: Mapping[str, Any],
    withheld: Mapping[str, str],
) -> inspect.BoundArguments:
    """The fields that a network asks for, each where it belongs.

    Features and edges that no parameter is named after go to the first ones without a field.

    Args:
        net: takes fields of a graph.
        signature: of the network.
        fields: what the graph has, by name; `x` and `edge_index` first.
        withheld: fields that it had, and why they could not follow a change of its edges.

    Raises:
        IncompatibleError: a parameter without a field.
    """
    chosen = dict[str, Any]()
    parameters = signature.parameters
    unnamed = [fields[part] for part in ("x", "edge_index") if part not in parameters]
    for name, parameter in parameters.items():
        needed = parameter.default is parameter.empty
        if parameter.kind is parameter.VAR_POSITIONAL:
            chosen[name], unnamed = tuple(unnamed), []
        elif parameter.kind is parameter.VAR_KEYWORD:
            taken = {"x", "edge_index", "num_nodes", *parameters}
            chosen[name] = {each: fields[each] for each in fields if each not in taken}
        elif name in fields:
            chosen[name] = fields[name]
        elif name in withheld or (needed and name in LABELS) or (needed and not unnamed):
            raise IncompatibleError(_missing(net, name, fields, withheld))
        elif needed:
            chosen[name] = unnamed.pop(0)
    return inspect.BoundArguments(signature, OrderedDict(chosen))


def _missing(
    net: nn.Module, name: str, fields: Mapping[str, Any], withheld: Mapping[str, str]
) -> str:
    """One line on a field that a network asks for in vain."""
    asks = f"{type(net).__name__} asks for {name!r}"
    if name in withheld:
        return f"{asks}: {withheld[name]}"
    if name in LABELS:
        return f"{asks}: labels and their masks are never given to a network in adaptation"
    return f"{asks}, and the graph has {', '.join(fields)}"


def signature_of(net: nn.Module) -> inspect.Signature:
    """The signature of `forward`, that of the network inside where a module hands arguments on."""
    net = unwrapped(net)
    # PyG's Sequential keeps the names apart from its forward(*args, **kwargs).
    names = getattr(getattr(net, "signature", None), "param_dict", None)
    if names is not None:
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        return inspect.Signature([inspect.Parameter(name, kind) for name in names])
    return inspect.signature(net.forward)


def required(signature: inspect.Signature) -> list[str]:
    """Parameters that have to be given."""
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    parameters = signature.parameters.items()
    return [n for n, p in parameters if p.default is p.empty and p.kind not in variable]


def takes_data(signature: inspect.Signature) -> bool:
    """Whether a whole `Data` is asked for: by the only parameter that has to be given."""
    asked = required(signature)
    return len(asked) == 1 and asked[0] != "x"


def takes_edge_weight(net: nn.Module) -> bool:
    """Whether edge weights can be given to a network, in a `Data` if it takes one."""
    signature = signature_of(net)
    takes_any = any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values())
    return takes_data(signature) or takes_any or "edge_weight" in signature.parameters


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
        allowed = f"{taken}, as the layer {name} of {type(net).__name__} takes"
        raise InvalidGraphError("graph.x", f"{features} features", allowed)


def _given_edges(signature: inspect.Signature, fields: Mapping[str, Any]) -> str:
    """A hint where a parameter was given `edge_index` for want of a field of its name."""
    unnamed = [name for name in required(signature) if name not in fields and name != "num_nodes"]
    if "edge_index" in signature.parameters or takes_data(signature) or not unnamed:
        return ""
    return (
        f" ({unnamed[-1]!r} was given edge_index: where the network needs something else, such as "
        f"a sparse matrix, put it into the Data as {unnamed[-1]!r})"
    )


def densified(name: str, x: Tensor) -> Tensor:
    """Features as a dense matrix; refused where there is no room for it.

    Args:
        name: of the network that needs them, for the error.
        x: dense or sparse, [N, F].
    """
    if x.layout == torch.strided:
        return x
    needed = x.shape[0] * x.shape[1] * x.dtype.itemsize
    free = device_of(x).free_bytes(x.device)
    if 0 < free < needed:
        raise IncompatibleError(
            f"{name} cannot run on sparse features, and dense ones take {needed / 1e9:,.1f} GB, "
            f"where {free / 1e9:,.1f} GB are free"
        )
    return x.to_dense()


def read_output(
    name: str, output: Any, num_nodes: int, num_edges: int, classes: int | None = None
) -> Tensor:
    """Logits of what a network returned, less their mean over classes, [N, C].

    Args:
        name: of the network, for errors.
        output: what it returned.
        num_nodes: N.
        num_edges: E, to tell outputs of edges.
        classes: how many there are, where that is known: it tells logits from an embedding.

    Raises:
        IncompatibleError: no node classes, in one line.

    Example:
        >>> read_output("Net", torch.tensor([[-2.0], [4.0]]), 2, 0)
        tensor([[ 1., -1.],
                [-2.,  2.]])
    """
    if isinstance(output, tuple | list):
        return _in_sequence(name, output, num_nodes, num_edges, classes)
    if not isinstance(output, Tensor):
        raise IncompatibleError(
            f"{name} returns a {type(output).__name__}: name the classifying layer with head=, or "
            "give a network that returns logits"
        )
    if not output.is_floating_point():
        raise IncompatibleError(f"{name} returns {output.dtype}: labels, where logits are needed")
    if output.dim() not in (1, 2) or len(output) != num_nodes or not output.numel():
        raise IncompatibleError(_no_nodes(name, output, num_nodes, num_edges))
    return _one_column(output) if output[0].numel() == 1 else _columns(output)


def _in_sequence(
    name: str, output: Any, num_nodes: int, num_edges: int, classes: int | None
) -> Tensor:
    tensors = ((k, each) for k, each in enumerate(output) if isinstance(each, Tensor))
    fitting = [k for k, each in tensors if each.dim() in (1, 2) and len(each) == num_nodes]
    if not fitting:
        raise IncompatibleError(
            f"{name} returns a {type(output).__name__} in which no tensor has a row for each of "
            f"{num_nodes} nodes"
        )
    of_classes = (k for k in fitting if _num_classes(output[k]) == classes)
    place = next(of_classes, fitting[0])
    return read_output(name, output[place], num_nodes, num_edges)


def _num_classes(output: Tensor) -> int:
    """One column is two classes."""
    columns = output[0].numel()
    return 2 if columns == 1 else columns


def _one_column(output: Tensor) -> Tensor:
    column = output.reshape(-1)
    is_probability = bool(((column >= 0) & (column <= 1)).all())
    logit = column.clamp(*_inside(column)).logit() if is_probability else column
    return torch.stack([-logit / 2, logit / 2], 1)


def _columns(output: Tensor) -> Tensor:
    logits = output
    if bool((output >= 0).all()) and bool(((output.sum(1) - 1).abs() <= ATOL).all()):
        logits = output.clamp_min(torch.finfo(output.dtype).tiny).log()
    return logits - logits.mean(1, keepdim=True)


def _inside(like: Tensor) -> tuple[float, float]:
    """Bounds of a probability whose logit is finite."""
    return float(torch.finfo(like.dtype).tiny), float(1 - torch.finfo(like.dtype).eps)


def _no_nodes(name: str, output: Tensor, num_nodes: int, num_edges: int) -> str:
    said = f"{name} returns a tensor of shape {list(output.shape)}"
    wanted = f"one row of logits for each of {num_nodes} nodes is needed"
    rows = len(output) if output.dim() else 1
    if output.dim() < 3 and rows == num_edges:
        return f"{said}, one row for each edge: {wanted}; edges cannot be classified"
    if output.dim() < 3 and rows == 1:
        return f"{said}, one row for the whole graph: {wanted}; graphs cannot be classified"
    return f"{said}: {wanted}"
