"""Losses for γ, in two forms that agree in value and gradient."""

import abc
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from matcha_gnn.errors import IncompatibleError
from matcha_gnn.gamma.methods.base import Prediction, Prepared, View
from matcha_gnn.gamma.methods.settings import Configured
from matcha_gnn.typing import FloatArray, Probs, Repr


class Loss(Configured, abc.ABC):
    """A label-free objective of the representation, given the base method's prediction.

    Calling the loss is the plain form on Z, for autograd, and all that a loss needs. `from_sums` is
    the form for models that mix cached hops linearly: the value, and its gradient in the hop
    weights. A loss may give a faster one than autograd through the plain form.

    Attributes:
        name: its name on the command line.
        needs_filter: it is a function of the hop weights of a filter, and has no plain form on Z.
    """

    name: ClassVar[str]
    needs_filter: ClassVar[bool] = False

    @abc.abstractmethod
    def __call__(self, z: Repr, logits: Tensor, probs: Probs) -> Tensor:
        """The loss, [].

        Args:
            z: representations, [N, D].
            logits: the model's head on z, [N, C].
            probs: the base method's prediction, [N, C], held constant.
        """

    def prepare(self, view: View) -> Prepared:
        """What is the same in every round, computed once for a target graph."""
        return None

    def from_sums(
        self, view: View, prediction: Prediction, prepared: Prepared
    ) -> tuple[float, FloatArray]:
        """Value and gradient [K+1] in the hop weights c."""
        with torch.enable_grad():
            hop_weights = view.hop_weights.detach().clone().requires_grad_()
            z = view.hops.mix(hop_weights)
            value = self(z, view.model.head(z), prediction.probs)
        (slope,) = torch.autograd.grad(value, hop_weights)
        return float(value.detach()), np.array(slope.tolist())

    def value(self, view: View, prediction: Prediction) -> float:
        """The loss alone, at a view."""
        return self.from_sums(view, prediction, self.prepare(view))[0]

    def minimiser(self, view: View, prediction: Prediction, prepared: Prepared) -> FloatArray:
        """The hop weights [K+1] that minimise the loss for fixed predictions, in closed form.

        Raises:
            IncompatibleError: there is no closed form.
        """
        raise IncompatibleError(f"loss {self.name!r} has no minimum in closed form")
