"""PyTorch answers where a program for the GPU cannot be started; one warning names it."""

import functools
import warnings
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import torch

P = ParamSpec("P")
R = TypeVar("R")
_FAILED: set[Callable[..., object]] = set()


def or_plain(fast: Callable[P, R] | None, plain: Callable[P, R]) -> Callable[P, R]:
    """The fast code, and plain code from the first time on that it cannot be started.

    Args:
        fast: compiles on its first call; None where there is none.
        plain: takes the same arguments and gives the same numbers up to rounding.

    Example:
        >>> or_plain(None, max)(1, 2)
        2
    """
    if fast is None or fast in _FAILED:
        return plain

    @functools.wraps(fast)
    def answer(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return fast(*args, **kwargs)
        except Exception as error:
            if not _kept_from_starting(error):
                raise
            _FAILED.add(fast)
            warnings.warn(
                f"the GPU program {fast.__name__} cannot be compiled here: PyTorch's own "
                f"operations answer in its place ({type(error).__name__}: {_first_line(error)})",
                stacklevel=2,
            )
            return plain(*args, **kwargs)

    return answer


def _kept_from_starting(error: Exception) -> bool:
    """Whether it comes from Triton or a compiler, and not from the device."""
    return not isinstance(error, torch.OutOfMemoryError) and "CUDA error" not in str(error)


def _first_line(error: Exception) -> str:
    return next((line for line in str(error).splitlines() if line.strip()), "")
