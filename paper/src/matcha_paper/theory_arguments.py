"""Checks of the arguments of `theory`: numbers or arrays, each in its range."""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from matcha_gnn.errors import InvalidArgumentError

FloatArray = NDArray[np.float64]


def _checked(
    argument: str,
    value: ArrayLike,
    is_allowed: Callable[[FloatArray], NDArray[np.bool_]],
    allowed: str,
) -> FloatArray:
    """The value as an array; an error that shows its first bad entry if there is one."""
    values = np.asarray(value, dtype=np.float64)
    bad = values[~(np.isfinite(values) & is_allowed(values))]
    if bad.size:
        raise InvalidArgumentError(argument, float(bad[0]), allowed)
    return values


def finite(argument: str, value: ArrayLike) -> FloatArray:
    """A finite number."""
    return _checked(argument, value, np.isfinite, "a finite number")


def positive(argument: str, value: ArrayLike) -> FloatArray:
    """Numbers above zero."""
    return _checked(argument, value, lambda x: x > 0, "a finite number > 0")


def non_negative(argument: str, value: ArrayLike) -> FloatArray:
    """Numbers from zero on."""
    return _checked(argument, value, lambda x: x >= 0, "a finite number >= 0")


def share(argument: str, value: ArrayLike) -> FloatArray:
    """Numbers in [0, 1]."""
    return _checked(argument, value, lambda x: (x >= 0) & (x <= 1), "a number in [0, 1]")


def cosine(argument: str, value: ArrayLike) -> FloatArray:
    """Numbers in [-1, 1]."""
    return _checked(argument, value, lambda x: np.abs(x) <= 1, "a number in [-1, 1]")


def checked_hops(degrees: ArrayLike, homophilies: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Degrees and homophilies of hops 0 to K, [K+1] each."""
    degrees_, homophilies_ = positive("degrees", degrees), share("homophilies", homophilies)
    if degrees_.ndim != 1 or not degrees_.size:
        raise InvalidArgumentError(
            "degrees", f"shape {degrees_.shape}", "one number for each hop, at least hop 0"
        )
    if homophilies_.shape != degrees_.shape:
        raise InvalidArgumentError(
            "homophilies", f"shape {homophilies_.shape}", f"the shape of degrees, {degrees_.shape}"
        )
    # A list that starts at hop 1 is the likely mistake; it would give a plausible wrong answer.
    for argument, hops in (("degrees", degrees_), ("homophilies", homophilies_)):
        if hops[0] != 1:
            raise InvalidArgumentError(argument, f"{hops[0]} for hop 0", "1, the node itself")
    return degrees_, homophilies_
