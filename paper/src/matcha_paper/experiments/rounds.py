"""What a base method predicts in every round, seen from outside."""

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from torch import Tensor

    from matcha_gnn.gamma.methods import BaseMethod, Prediction, View

T = TypeVar("T")


def watched(method: "BaseMethod", keep: Callable[["Tensor"], T]) -> tuple["BaseMethod", list[T]]:
    """The method, and a list that will hold something of the class probabilities of every round.

    Args:
        method: stays as it is; the first result does the same.
        keep: what of the probabilities [N, C] to hold.
    """
    rounds: list[T] = []

    class Watched(type(method)):  # type: ignore[misc]
        def predict(self, view: "View", state: Any) -> tuple["Prediction", Any]:
            prediction, state = super().predict(view, state)
            rounds.append(keep(prediction.probs))
            return prediction, state

    observed = copy.copy(method)
    # A method with settings is a frozen dataclass.
    object.__setattr__(observed, "__class__", Watched)
    return observed, rounds


def share_right(labels: "Tensor", classes: "Tensor", mask: "Tensor | None" = None) -> float:
    """The share of predicted labels [N] that are the nodes' classes, in a mask or of all nodes.

    Example:
        >>> import torch
        >>> share_right(torch.tensor([0, 1, 1, 1]), torch.tensor([0, 1, 0, 0]))
        0.5
    """
    right = labels == classes
    return float((right if mask is None else right[mask]).double().mean())
