"""The model of a command: a file, or a network of the user's own module; names of its classes."""

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
from matcha_gnn.gamma.models import Backbone
from matcha_gnn.io.files import existing_file
from matcha_gnn.io.models import load_model

STATE_DICT = (
    "a state dict of the network, as torch.save(net.state_dict(), path) writes it, alone or in a "
    "checkpoint under state_dict"
)
INSIDE = ("state_dict", "model_state_dict")
"""Names under which checkpoints have it."""


def given_names(classes: str | None) -> list[str] | None:
    """What --classes says."""
    return None if classes is None else classes.split(",")


def given_model(
    model: Path | None, network: str | None, weights: Path | None
) -> Backbone | nn.Module:
    """What --network and --weights say, or else the model file, which one of them has to be.

    Args:
        model: a file of `save_model`.
        network: MODULE:NAME of a class or function without arguments.
        weights: a file with its state dict.
    """
    if network is None:
        if weights is not None:
            raise InvalidArgumentError("--weights", weights, "none without --network")
        if model is None:
            allowed = "a model file, or --network MODULE:NAME --weights FILE"
            raise InvalidArgumentError("MODEL", "none", allowed)
        return load_model(model)
    if model is not None:
        raise InvalidArgumentError("--network", network, "none beside a MODEL file")
    return load_network(network, weights)


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
        found = getattr(importlib.import_module(module), name)
        net = found if isinstance(found, nn.Module) else found()
    except Exception as error:
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise InvalidArgumentError("--network", f"{place} ({reason})", allowed) from error
    if not isinstance(net, nn.Module):
        raise InvalidArgumentError("--network", f"{place} (a {type(net).__name__})", allowed)
    return net
