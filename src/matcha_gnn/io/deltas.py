"""Adapted γ of a wrapped network: a file of a few numbers, tied to the weights it belongs to."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from weakref import WeakSet

import torch
from torch import Tensor, nn

from matcha_gnn.backbones import Backbone
from matcha_gnn.backbones.foreign import AddedHops, Wrapped
from matcha_gnn.backbones.foreign.added import mixing_patches
from matcha_gnn.backbones.foreign.patches import Patch, put
from matcha_gnn.backbones.foreign.sites import Site, find_sites, owner
from matcha_gnn.backbones.foreign.wrap import weights_hash
from matcha_gnn.errors import IncompatibleError, InvalidArgumentError
from matcha_gnn.io.jsontext import json_object
from matcha_gnn.io.tensorfiles import TensorFormat

FORMAT = TensorFormat(
    "delta",
    "matcha-gnn delta 2",
    allowed="a file as save_delta wrote it",
)
_changed: WeakSet[nn.Module] = WeakSet()


@dataclass(frozen=True)
class Delta:
    """What a delta file holds.

    Attributes:
        gamma: the adapted numbers, flat.
        before: the network's own.
        paths: where they belong; None for hops that were added.
        head: path of the classifying layer, or None.
        base: hash of the network's weights.
    """

    gamma: Tensor
    before: Tensor
    paths: list[str] | None
    head: str | None
    base: str


DELTA_OF = (
    "what wrap or add_hops made, with other hop weights; else use save_model. An answer by "
    "evidence has none: adapt with strategy=mg.Guarded(strategies=(mg.Matcha(),))"
)


def save_delta(model: Backbone, path: str | Path) -> None:
    """Write the γ of an adapted network, such as `result.model`, and a hash of its other weights.

    Args:
        model: from `wrap` or `add_hops`, usually after `adapt`.
        path: a .safetensors file; it appears whole or not at all.

    Raises:
        IncompatibleError: other weights have moved too, so that γ alone would not bring them back.
    """
    if not isinstance(model, Wrapped | AddedHops):
        got = f"a {type(model).__name__}"
        raise InvalidArgumentError("model", got, DELTA_OF)
    if weights_hash(model.net) != model.base_hash:
        raise IncompatibleError(
            f"the weights of {model.name} are not those it was wrapped with: a delta holds γ alone"
        )
    if isinstance(model, Wrapped):
        paths: list[str] | None = [site.path for site in model.sites]
        before = torch.cat([site.start for site in model.sites])
    else:
        paths, before = None, torch.eye(1, len(model.gamma))[0]
    places = json.dumps({"paths": paths, "head": model.head_path})
    tensors = {"gamma": model.gamma, "before": before}
    FORMAT.write(path, tensors, {"base": model.base_hash, "places": places})


def load_delta(path: str | Path) -> Delta:
    """Read a file that `save_delta` wrote.

    Raises:
        InvalidFileError: not such a file, or damaged.
    """
    metadata, tensors = FORMAT.read(path)
    try:
        places = json_object(metadata["places"])
        found = Delta(
            tensors["gamma"], tensors["before"], places["paths"], places["head"], metadata["base"]
        )
    except (ValueError, KeyError) as error:
        raise FORMAT.refused(path, f"{type(error).__name__}: {error}") from error
    if not _is_whole(found):
        raise FORMAT.refused(path, "parts that do not fit together")
    return found


def _is_whole(delta: Delta) -> bool:
    """As many numbers after as before, and paths that are texts."""
    numbers = (delta.gamma, delta.before)
    paths = [] if delta.paths is None else delta.paths
    texts = [*paths, delta.head or ""] if isinstance(paths, list) else [None]
    return (
        all(tensor.dim() == 1 and tensor.is_floating_point() for tensor in numbers)
        and delta.gamma.shape == delta.before.shape
        and all(isinstance(text, str) for text in texts)
    )


class Applied:
    """A delta in place in a network; `undo` puts the network's own numbers back.

    Attributes:
        delta: what was put in.
    """

    def __init__(self, net: nn.Module, delta: Delta, undo: ExitStack) -> None:
        self.delta, self._net, self._undo = delta, net, undo

    def undo(self) -> None:
        """Restore the network, bit by bit; a second call does nothing."""
        self._undo.close()
        _changed.discard(self._net)


def apply_delta(net: nn.Module, path: str | Path) -> Applied:
    """Put adapted γ into a network, in place; it then answers as the adapted model did.

    Parameters and plain floats get their new values. Layers that were reweighted, and heads that
    had hops put before them, get a forward of their own until `undo`: copy or pickle such a
    network before, or save its state dict, which stays the base's.

    Args:
        net: the network that was wrapped, with the same weights.
        path: a file that `save_delta` wrote.

    Returns:
        A handle with `undo`.

    Raises:
        IncompatibleError: another base, or a delta is in place already.

    Example:
        >>> import tempfile
        >>> from torch_geometric.nn import APPNP
        >>> import matcha_gnn as mg
        >>> net, folder = APPNP(K=2, alpha=0.1), Path(tempfile.mkdtemp())
        >>> model = mg.wrap(net, gamma="alpha")
        >>> model.gamma.data.fill_(0.5)
        tensor([0.5000])
        >>> save_delta(model, folder / "delta.safetensors")
        >>> applied = apply_delta(net, folder / "delta.safetensors")
        >>> net.alpha
        0.5
        >>> applied.undo()
        >>> net.alpha
        0.1
    """
    delta = load_delta(path)
    if net in _changed:
        raise IncompatibleError(f"{type(net).__name__} has a delta in place: undo it first")
    if weights_hash(net) != delta.base:
        raise IncompatibleError(
            f"{path} belongs to other weights than those of this {type(net).__name__}"
        )
    with ExitStack() as stack:
        if delta.paths is None:
            patches = mixing_patches(net, delta.head, delta.gamma)
            stack.enter_context(put(patches))
        else:
            _put(net, delta, stack)
        undo = stack.pop_all()
    _changed.add(net)
    return Applied(net, delta, undo)


def _put(net: nn.Module, delta: Delta, stack: ExitStack) -> None:
    sites = find_sites(net, delta.paths or [])
    if not torch.equal(torch.cat([site.start for site in sites]).cpu(), delta.before):
        raise IncompatibleError(
            f"γ of this {type(net).__name__} ({', '.join(delta.paths or [])}) is not the base's"
        )
    sizes = [len(site.start) for site in sites]
    for site, values in zip(sites, torch.split(delta.gamma, sizes), strict=True):
        stack.enter_context(put(_patches(net, site, values, stack)))


def _patches(net: nn.Module, site: Site, values: Tensor, stack: ExitStack) -> Iterator[Patch]:
    if site.layer is not None:
        yield from site.patches(net, values.to(site.start))
        return
    module, name = owner(net, site.path)
    parameter = module._parameters.get(name)
    if parameter is None:
        yield Patch(module, name, float(values))
        return
    before = parameter.detach().clone()
    stack.callback(_copy, parameter, before)
    _copy(parameter, values.view(site.shape))


@torch.no_grad()
def _copy(parameter: Tensor, values: Tensor) -> None:
    parameter.copy_(values)
