"""Computation as if the caller had set nothing, and random numbers that threads do not share."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from threading import RLock
from typing import ParamSpec, TypeVar

import torch
from torch import Tensor

from matcha_gnn.kernels.devices import DEVICES, device_of

P = ParamSpec("P")
T = TypeVar("T")

_drawing = [RLock()]


def _unlock() -> None:
    """A forked process has one thread: nobody else in it can hold the lock."""
    _drawing[0] = RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_unlock)


@contextmanager
def seeded(seed: int, like: Tensor) -> Iterator[None]:
    """Seed torch's generators inside the block, also that of a tensor's device; restore them.

    These generators are the process's: threads come in one after another.
    """
    devices = [like.device] if device_of(like).generators else []
    with _drawing[0], torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        yield


def drawing_alone(make: Callable[P, T]) -> Callable[P, T]:
    """A function that draws from torch's generators, not while another thread is in `seeded`."""

    @wraps(make)
    def alone(*args: P.args, **options: P.kwargs) -> T:
        with _drawing[0]:
            return make(*args, **options)

    return alone


@contextmanager
def plain_torch() -> Iterator[None]:
    """With gradients, and without inference mode and autocast, whatever the caller is inside of.

    All three belong to the thread, and are as they were afterwards.

    Example:
        >>> with torch.inference_mode(), plain_torch():
        ...     torch.ones(1).is_inference(), torch.is_grad_enabled()
        (False, True)
    """
    with ExitStack() as stack:
        stack.enter_context(torch.inference_mode(mode=False))
        stack.enter_context(torch.enable_grad())
        for device in DEVICES:
            if torch.is_autocast_enabled(device):
                stack.enter_context(torch.autocast(device, enabled=False))
        yield
