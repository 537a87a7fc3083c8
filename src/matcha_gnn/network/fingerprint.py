"""A fingerprint of a network: a hash of its weights, by which a source summary knows its own."""

from collections.abc import Mapping

import torch
import xxhash
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

WRAPPERS = {"DataParallel": "module", "DistributedDataParallel": "module"}
"""Modules that hand their arguments on, and where they keep the network."""
COMPILED = "_orig_mod"
"""Where `torch.compile` keeps the network."""
FINGERPRINT_BYTES = 16


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


def fingerprint_of(net: nn.Module) -> Tensor | None:
    """The fingerprint of a network's parameters and buffers; None where it has none."""
    return fingerprint(unwrapped(net).state_dict())


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
