"""The model of a command: a file, a network of the user's own module, or probabilities."""

import importlib
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from matcha_gnn.errors import InvalidArgumentError, InvalidFileError
from matcha_gnn.io import answerfiles
from matcha_gnn.io.files import existing_file
from matcha_gnn.io.probabilities import read_probs
from matcha_gnn.network.network import GivenNetwork

STATE_DICT = (
    "a state dict of the network, as torch.save(net.state_dict(), path) writes it, alone or in a "
    "checkpoint under state_dict"
)
INSIDE = ("state_dict", "model_state_dict")
"""Names under which checkpoints have it."""


def given_model(
    model: Path | None,
    network: str | None,
    weights: Path | None,
    probs: Path | None = None,
    logits: bool = False,
) -> nn.Module:
    """What the options say, or else the model file.

    Args:
        model: a file of `save_model`; or of `result.save`, whose network the options give.
        network: MODULE:NAME of a class or function without arguments.
        weights: a file with its state dict.
        probs: a file of class probabilities.
        logits: they are logits.
    """
    if network is not None and probs is not None:
        raise InvalidArgumentError("--probs", probs, "none beside --network")
    if weights is not None and network is None:
        raise InvalidArgumentError("--weights", weights, "none without --network")
    if logits and probs is None:
        raise InvalidArgumentError("--logits", "it", "none without --probs")
    if model is None:
        if probs is not None:
            return GivenNetwork(read_probs(probs), logits)
        if network is None:
            allowed = "a model file, --network MODULE:NAME --weights FILE, or --probs FILE"
            raise InvalidArgumentError("MODEL", "none", allowed)
        return load_network(network, weights)
    if answerfiles.FORMAT.wrote(model):
        return _answering(model, network, weights, probs, logits)
    for option, value in {"--network": network, "--probs": probs}.items():
        if value is not None:
            raise InvalidArgumentError(option, value, "none beside the file of a model")
    from matcha_gnn.gamma.files import load_model

    return load_model(model)


def _answering(
    path: Path, network: str | None, weights: Path | None, probs: Path | None, logits: bool
) -> nn.Module:
    """What `result.save` wrote, with the network that the options give."""
    if weights is not None:
        raise InvalidArgumentError("--weights", weights, "none: the answer's file has them")
    if network is not None:
        return answerfiles.load(path, network=_made(network))
    if probs is not None:
        return answerfiles.load(path, network=read_probs(probs), logits=logits)
    allowed = "the network of the answer by --network MODULE:NAME, or --probs FILE"
    raise InvalidArgumentError("MODEL", f"{path} alone", allowed)


def usable_device(name: str) -> torch.device:
    """The device that the option --device names."""
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        allowed = "cpu, or a device torch can use"
        raise InvalidArgumentError("--device", repr(name), allowed) from error
    return device


def load_network(place: str, weights: Path | None) -> nn.Module:
    """A network from a module of the current folder or the path, in evaluation mode.

    Args:
        place: MODULE:NAME, as in "my_networks:Net"; what is named is called without arguments.
        weights: a file with its state dict, or with a checkpoint that has one, opened without
            unpickling.

    Raises:
        InvalidArgumentError, InvalidFileError: one line on what could not be had.
    """
    if weights is None:
        raise InvalidArgumentError("--weights", "none", "the file of the network's state dict")
    net = _made(place)
    state = _state_dict(existing_file(weights, "--weights"))
    try:
        net.load_state_dict(state)
    # Other names or shapes, or no dictionary at all; a line says in which network.
    except Exception as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        reason = (lines or [type(error).__name__])[1 if len(lines) > 1 else 0]
        raise InvalidFileError("--weights", f"{weights} ({reason})", STATE_DICT) from error
    return net.eval()


def _state_dict(weights: Path) -> Any:
    """What a file holds, or what a checkpoint has in it beside the epoch and others."""
    try:
        held = torch.load(weights, map_location="cpu", weights_only=True)
    # A refused class, a truncated archive, bytes of something else, …
    except Exception as error:
        refused = re.search(r"Unsupported global: GLOBAL (\S+)", str(error))
        reason = (
            f"a pickled {refused[1]}, which is not opened: it could run any code"
            if refused
            else "no file of torch.save, or damaged"
        )
        raise InvalidFileError("--weights", f"{weights} ({reason})", STATE_DICT) from error
    if isinstance(held, Mapping):
        inside = (held[name] for name in INSIDE if isinstance(held.get(name), Mapping))
        return next(inside, held)
    return held


def _made(place: str) -> nn.Module:
    allowed = "MODULE:NAME of a torch.nn.Module, made without arguments"
    module, colon, name = place.partition(":")
    if not (module and colon and name):
        raise InvalidArgumentError("--network", place, allowed)
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    # Whatever the user's module does on import is named, not shown as a fault of ours.
    try:
        named = getattr(importlib.import_module(module), name)
        net = named if isinstance(named, nn.Module) else named()
    except Exception as error:
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise InvalidArgumentError("--network", f"{place} ({reason})", allowed) from error
    if not isinstance(net, nn.Module):
        raise InvalidArgumentError("--network", f"{place} (a {type(net).__name__})", allowed)
    return net
