"""Which fields of a graph a network's `forward` asks for, by the names of its parameters."""

import inspect
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from torch import nn

from matcha_gnn.errors import IncompatibleError
from matcha_gnn.graphs.extras import LABELS
from matcha_gnn.network.fingerprint import unwrapped


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


def takes_field(signature: inspect.Signature, name: str) -> bool:
    """Whether a field can be given, in a `Data` if that is asked for."""
    parameters = signature.parameters
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    return takes_data(signature) or takes_any or name in parameters


def bound(
    net: nn.Module, fields: Mapping[str, Any], withheld: Mapping[str, str]
) -> inspect.BoundArguments:
    """The fields that a network asks for, each where it belongs.

    Features and edges that no parameter is named after go to the first ones without a field.

    Args:
        net: takes fields of a graph.
        fields: what the graph has, by name; `x` and `edge_index` first.
        withheld: fields that it had, and why they could not follow a change of its edges.

    Raises:
        IncompatibleError: a parameter without a field.
    """
    signature, chosen = signature_of(net), dict[str, Any]()
    parameters = signature.parameters
    unnamed = [fields[part] for part in ("x", "edge_index") if part not in parameters]
    for name, parameter in parameters.items():
        needed = parameter.default is parameter.empty
        if parameter.kind is parameter.VAR_POSITIONAL:
            chosen[name], unnamed = tuple(unnamed), []
        elif parameter.kind is parameter.VAR_KEYWORD:
            chosen[name] = _others(fields, parameters)
        elif name in fields:
            chosen[name] = fields[name]
        elif name in withheld or (needed and name in LABELS) or (needed and not unnamed):
            raise IncompatibleError(missing(net, name, fields, withheld))
        elif needed:
            chosen[name] = unnamed.pop(0)
    return inspect.BoundArguments(signature, OrderedDict(chosen))


def missing(
    net: nn.Module, name: str, fields: Mapping[str, Any], withheld: Mapping[str, str]
) -> str:
    """One line on a field that a network asks for in vain."""
    asks = f"{type(net).__name__} asks for {name!r}"
    if name in withheld:
        return f"{asks}: {withheld[name]}"
    if name in LABELS:
        return f"{asks}: labels and their masks are never given to a network in adaptation"
    return f"{asks}, and the graph has {', '.join(fields)}"


def _others(fields: Mapping[str, Any], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """What no other parameter has taken, for **kwargs."""
    taken = {"x", "edge_index", "num_nodes", *parameters}
    return {name: value for name, value in fields.items() if name not in taken}
