"""Where a network keeps the numbers that mix its hops: by path, and by known layers."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from matcha_gnn.errors import InvalidArgumentError, require_kind
from matcha_gnn.network.modules import Patch, is_linear, pyg_kind

ALPHA_LAYERS = ("APPNP", "GCN2Conv", "SSGConv")
"""PyG's layers with a number `alpha` between a node and its neighbours."""
HEADS_INSIDE = ("SGConv", "SSGConv")
"""PyG's layers that end in a linear layer `lin` of each node alone."""


class Reweighting(NamedTuple):
    """How weights are put on the hops of a layer that has none.

    Attributes:
        start: from the layer and its network, the weights that change nothing, [·].
        patches: from the layer and weights, what makes it use them.
    """

    start: Callable[[nn.Module, nn.Module], Tensor]
    patches: Callable[[Any, Tensor], Iterator[Patch]]


@dataclass(frozen=True)
class Site:
    """A place in a network that holds entries of γ.

    Attributes:
        path: of a parameter or float ("prop.alpha"), or of a layer to reweight ("conv1").
        start: the network's own values, flat.
        shape: of the parameter.
        layer: how a layer is reweighted; None for a parameter or float.
    """

    path: str
    start: Tensor
    shape: tuple[int, ...]
    layer: Reweighting | None = None

    def patches(self, net: nn.Module, values: Tensor) -> Iterator[Patch]:
        """What makes `net` use `values` here, differentiably."""
        if self.layer is not None:
            yield from self.layer.patches(net.get_submodule(self.path), values)
        else:
            module, name = owner(net, self.path)
            yield Patch(module, name, values.view(self.shape))


def find_sites(net: nn.Module, patterns: Sequence[str]) -> list[Site]:
    """The sites that patterns such as "prop.alpha" or "convs.*.alpha" name, in the net's order."""
    known = {site.path: site for site in _all_sites(net)}
    chosen: set[str] = set()
    for pattern in patterns:
        matches = [path for path in known if _matches(path, pattern)]
        if not matches:
            raise InvalidArgumentError("gamma", _missing(net, pattern, list(known)), ALLOWED)
        chosen |= set(matches)
    return [site for path, site in known.items() if path in chosen]


ALLOWED = (
    "paths of floating-point parameters, of floats, or of layers that can be reweighted "
    "(SGConv, TAGConv, MixHopConv, JumpingKnowledge)"
)


@dataclass(frozen=True)
class Found:
    """What `find_gamma` proposes for `wrap`.

    Attributes:
        gamma: paths of the numbers that mix hops, or of layers whose hops can be reweighted.
        head: path of the classifying layer; None where what mixes hops comes last.
        remarks: a sentence on each.
    """

    gamma: tuple[str, ...]
    head: str | None
    remarks: tuple[str, ...]

    def __str__(self) -> str:
        """The sentences, one a line."""
        return "\n".join(self.remarks)


def require_module(net: object) -> None:
    """Refuse what is no network, or one whose parts cannot be changed any more."""
    if not isinstance(net, nn.Module):
        raise InvalidArgumentError("net", f"a {type(net).__name__}", "a torch.nn.Module")
    if isinstance(net, torch.jit.ScriptModule):
        allowed = "the torch.nn.Module from which torch.jit made it"
        raise InvalidArgumentError("net", f"a compiled {type(net).__name__}", allowed)


def find_gamma(net: nn.Module) -> Found:
    """Propose what `wrap` should adapt in a network made of known layers.

    Known are PyG's APPNP, GCN2Conv and SSGConv (their `alpha`), SGConv, TAGConv, MixHopConv and
    JumpingKnowledge (weights are put on their hops or layers), and a vector `temp` as in GPRGNN.
    The head is the last linear layer that is listed behind them in the network; none is proposed
    where the mixing comes last. Order of listing need not be order of use: `wrap` checks, on the
    first graph, that γ reaches the head and that the head gives the answer.

    Args:
        net: the network; it is only looked at.

    Example:
        >>> from torch_geometric.nn import SGConv
        >>> print(find_gamma(nn.Sequential(SGConv(8, 3, K=2))))
        0: the 3 hops of SGConv can be reweighted
        head 0.lin: the last linear layer behind them
    """
    require_module(net)
    sites, last = dict[str, str](), -1
    for place, (path, module) in enumerate(net.named_modules()):
        known = dict(_known_sites(net, path, module))
        sites |= known
        last = place if known else last
    heads = [path for place, path in _linear_layers(net) if place > last]
    head = heads[-1] if sites and heads else None
    if not sites:
        end = (
            f"{_name(net)} has no hop weights that are known here: name some by path, or put "
            "neutral ones on its representation with add_hops"
        )
    elif head:
        end = f"head {head}: the last linear layer behind them"
    else:
        end = "no head: no linear layer is listed behind them, so Z is the output itself"
    return Found(tuple(sites), head, (*(f"{path}: {sites[path]}" for path in sites), end))


def require_path(argument: str, path: object) -> None:
    """Refuse what is no path of a module; None is none."""
    if path is not None:
        require_kind(argument, path, str, 'a path such as "lin2"')


def owner(net: nn.Module, path: str) -> tuple[nn.Module, str]:
    """The module that has the attribute at a path, and the attribute's name."""
    parent, _, name = path.rpartition(".")
    return net.get_submodule(parent), name


def _known_sites(net: nn.Module, path: str, module: nn.Module) -> Iterator[tuple[str, str]]:
    prefix = f"{path}." if path else ""
    kind = pyg_kind(module, ALPHA_LAYERS)
    if kind and isinstance(getattr(module, "alpha", None), float | Tensor):
        yield f"{prefix}alpha", f"how much {kind} keeps of a node itself"
    layer = pyg_kind(module, list(REWEIGHTED))
    if layer:
        count = len(REWEIGHTED[layer].start(module, net))
        part = "layers" if layer == "JumpingKnowledge" else "hops"
        yield path, f"the {count} {part} of {layer} can be reweighted"
    temp = module._parameters.get("temp")
    if temp is not None and temp.dim() == 1:
        yield f"{prefix}temp", f"{len(temp)} hop weights, as in GPRGNN"


def _linear_layers(net: nn.Module) -> Iterator[tuple[int, str]]:
    """Linear layers that see one node at a time, with their place in the listing."""
    convolutions = [p for p, m in net.named_modules() if pyg_kind(m, ["MessagePassing"])]
    open_ones = {
        f"{p}.lin" if p else "lin"
        for p in convolutions
        if pyg_kind(net.get_submodule(p), HEADS_INSIDE)
    }
    for place, (path, module) in enumerate(net.named_modules()):
        inside = any(path.startswith(f"{p}.") or not p for p in convolutions)
        if is_linear(module) and (path in open_ones or not inside):
            yield place, path


def _all_sites(net: nn.Module) -> Iterator[Site]:
    like = next((p for p in net.parameters() if p.is_floating_point()), torch.zeros(()))
    for path, module in net.named_modules():
        prefix = f"{path}." if path else ""
        layer = pyg_kind(module, list(REWEIGHTED))
        if layer:
            start = REWEIGHTED[layer].start(module, net).to(like)
            yield Site(path, start, (len(start),), REWEIGHTED[layer])
        for name, parameter in module._parameters.items():
            if parameter is not None and parameter.is_floating_point():
                value = parameter.detach().clone()
                yield Site(prefix + name, value.reshape(-1).to(like), tuple(value.shape))
        for name, attribute in vars(module).items():
            if isinstance(attribute, float):
                yield Site(prefix + name, torch.tensor([attribute]).to(like), ())


def _matches(path: str, pattern: str) -> bool:
    parts, wanted = path.split("."), pattern.split(".")
    return len(parts) == len(wanted) and all(map(fnmatchcase, parts, wanted))


def _missing(net: nn.Module, pattern: str, known: list[str]) -> str:
    try:
        module, name = owner(net, pattern)
        there = getattr(module, name)
    except AttributeError:
        near = get_close_matches(pattern, known, n=3, cutoff=0.5)
        hint = f"did you mean {', '.join(near)}?" if near else f"no such path in {_name(net)}"
        return f"{pattern!r} ({hint})"
    return f"{pattern!r} (of type {type(there).__name__})"


def _name(net: nn.Module) -> str:
    return type(net).__name__


def _hop_weights(module: Any, net: nn.Module) -> Tensor:
    weights = torch.zeros(module.K + 1)
    weights[-1] = 1
    return weights


def _sgconv(module: Any, weights: Tensor) -> Iterator[Patch]:
    """Keep what each propagation gives, and let the linear layer see the mix."""
    hops: list[Tensor] = []
    forward, propagate, linear = module.forward, module.propagate, module.lin.forward

    def begin(*arguments: Any, **options: Any) -> Any:
        hops.clear()
        return forward(*arguments, **options)

    def keep(edge_index: Any, x: Tensor, **options: Any) -> Any:
        if not hops:
            hops.append(x)
        hops.append(propagate(edge_index, x=x, **options))
        return hops[-1]

    def mix(x: Tensor) -> Any:
        return linear(torch.stack(hops, -1) @ weights)

    yield Patch(module, "forward", begin)
    yield Patch(module, "propagate", keep)
    yield Patch(module.lin, "forward", mix)


def _term_weights(module: Any, net: nn.Module) -> Tensor:
    return torch.ones(len(getattr(module, "powers", module.lins)))


def _scaled_terms(module: Any, weights: Tensor) -> Iterator[Patch]:
    """Scale what the linear layer of each power gives."""
    powers = getattr(module, "powers", range(len(module.lins)))
    for power, weight in zip(powers, weights, strict=True):
        lin = module.lins[power]

        # These layers call `forward` itself, past any hook.
        def scaled(x: Tensor, plain: Any = lin.forward, weight: Tensor = weight) -> Any:
            return weight * plain(x)

        yield Patch(lin, "forward", scaled)


def _layer_weights(module: nn.Module, net: nn.Module) -> Tensor:
    """One for each convolution beside the module: it does not know itself how many come in."""
    path = next(p for p, m in net.named_modules() if m is module)
    beside = net.get_submodule(path.rpartition(".")[0])
    count = sum(pyg_kind(m, ["MessagePassing"]) is not None for m in beside.modules())
    return torch.ones(count)


def _scaled_layers(module: Any, weights: Tensor) -> Iterator[Patch]:
    join = module.forward

    def scaled(layers: Sequence[Tensor]) -> Any:
        if len(layers) != len(weights):
            got = f"{len(layers)} layers joined by JumpingKnowledge"
            raise InvalidArgumentError("gamma", got, f"{len(weights)}, one for each convolution")
        return join([weight * h for weight, h in zip(weights, layers, strict=True)])

    yield Patch(module, "forward", scaled)


REWEIGHTED: dict[str, Reweighting] = {
    "SGConv": Reweighting(_hop_weights, _sgconv),
    "TAGConv": Reweighting(_term_weights, _scaled_terms),
    "MixHopConv": Reweighting(_term_weights, _scaled_terms),
    "JumpingKnowledge": Reweighting(_layer_weights, _scaled_layers),
}
