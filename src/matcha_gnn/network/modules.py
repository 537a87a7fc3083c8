"""PyTorch modules from outside: copied, unwrapped, hashed, checked, and changed for a while."""

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import torch
import xxhash
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.nn.utils import get_total_norm

from matcha_gnn.kernels.devices import HALF

CACHES = ("_cached_edge_index", "_cached_adj_t", "_cached_x", "_cached_h")
"""Where PyG's layers keep the graph they saw first; with `cached=True` they answer from it."""


WRAPPERS = {"DataParallel": "module", "DistributedDataParallel": "module"}
"""Modules that hand their arguments on, and where they keep the network."""
COMPILED = "_orig_mod"
"""Where `torch.compile` keeps the network."""
FINGERPRINT_BYTES = 16


def private_copy(net: nn.Module) -> nn.Module:
    """A copy in evaluation mode that has forgotten the graphs it saw.

    Weights in half precision become float32: the evidence needs more digits.
    """
    copied = copy.deepcopy(net).eval()
    for module in copied.modules():
        if getattr(module, "cached", False) is True:
            setattr(module, "cached", False)  # noqa: B010 (not an attribute of every module)
        for name in CACHES:
            if getattr(module, name, None) is not None:
                setattr(module, name, None)
    copied._apply(lambda part: part.float() if part.dtype in HALF else part)  # type: ignore[no-untyped-call]
    return copied


def unwrapped(net: nn.Module) -> nn.Module:
    """The network inside modules that only hand their arguments on.

    Example:
        >>> unwrapped(nn.DataParallel(nn.Linear(2, 3)))
        Linear(in_features=2, out_features=3, bias=True)
    """
    inner = getattr(net, COMPILED, None)
    if inner is None and type(net).__name__ in WRAPPERS:
        inner = getattr(net, WRAPPERS[type(net).__name__])
    return net if inner is None else unwrapped(inner)


def fingerprint(state: Mapping[str, object]) -> Tensor | None:
    """A 128-bit hash of names, shapes and values, uint8 [16]; None without a tensor.

    Floats count as float32: a network and its float64 copy have one fingerprint, on any device.
    What is still to be made, or is not dense, does not count.

    Example:
        >>> net = nn.Linear(2, 3)
        >>> first = fingerprint(net.state_dict())
        >>> bool((fingerprint(net.double().state_dict()) == first).all())
        True
    """
    digest, empty = xxhash.xxh3_128(), True
    for name, tensor in sorted(state.items()):
        if not isinstance(tensor, Tensor) or is_lazy(tensor) or tensor.layout != torch.strided:
            continue
        values = tensor.detach().float() if tensor.is_floating_point() else tensor.detach()
        digest.update(f"{name.replace(f'{COMPILED}.', '')}{list(values.shape)}".encode())
        digest.update(values.cpu().contiguous().view(-1).numpy().data)
        empty = False
    return None if empty else torch.frombuffer(bytearray(digest.digest()), dtype=torch.uint8)


def first_non_finite(tensors: Mapping[str, Tensor]) -> str | None:
    """The name of the first tensor with a NaN or an infinity.

    Example:
        >>> first_non_finite({"a": torch.ones(2), "b": torch.tensor([0.0, torch.nan])})
        'b'
    """
    held = {
        name: each
        for name, each in tensors.items()
        # Not one that is still to be made, sparse, or on the meta device.
        if each.is_floating_point()
        and each.layout == torch.strided
        and not (each.is_meta or is_lazy(each))
    }
    # A finite norm of all rules out NaN and infinity, and a GPU is waited for once.
    if bool(get_total_norm([each.detach() for each in held.values()]).isfinite()):
        return None
    return next((name for name, each in held.items() if not bool(each.isfinite().all())), None)


def pyg_kind(module: nn.Module, names: Sequence[str]) -> str | None:
    """The name among `names` of a PyG class that a module is or descends from."""
    # By name: importing PyG takes seconds, and who has such a layer has imported it.
    for kind in type(module).__mro__:
        if kind.__name__ in names and kind.__module__.startswith("torch_geometric."):
            return kind.__name__
    return None


def is_linear(module: nn.Module) -> bool:
    """Whether this is torch's or PyG's plain linear layer."""
    return isinstance(module, nn.Linear) or pyg_kind(module, ["Linear"]) is not None


class Patch(NamedTuple):
    """What an attribute of a module should be for a while."""

    module: nn.Module
    name: str
    value: Any


def put(patches: Iterable[Patch]) -> ExitStack:
    """Put the values in place, each seeing those before it; closing what is returned undoes it.

    The instance's own dictionary is read before parameters, submodules and methods, so none of
    these is touched: they keep their order, and the caller's tensors their identity. Values stay
    in place if what is returned is thrown away.

    Example:
        >>> layer = nn.Linear(2, 2)
        >>> undo = put([Patch(layer, "forward", lambda x: "other")])
        >>> layer(None)
        'other'
        >>> undo.close()
        >>> "forward" in vars(layer)
        False
    """
    with ExitStack() as stack:
        for module, name, value in patches:
            own = vars(module)
            if name in own:
                stack.callback(own.__setitem__, name, own[name])
            else:
                stack.callback(own.pop, name, None)
            own[name] = value
        return stack.pop_all()


@contextmanager
def patched(patches: Iterable[Patch]) -> Iterator[None]:
    """The values are in place inside the block."""
    with put(patches):
        yield
