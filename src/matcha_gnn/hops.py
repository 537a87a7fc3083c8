"""Step 2: the per-depth stack, kept with the key of the graph and encoder it was made from."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from matcha_gnn import kernels
from matcha_gnn.errors import IncompatibleError
from matcha_gnn.typing import ClassSums, Coefficients, FloatArray, HopForm, HopStack, Probs, Repr


class HopsKey(NamedTuple):
    """Content hashes of what a stack was made from."""

    graph: str
    encoder: str


class MixedSums(NamedTuple):
    """Sums over Z at one c, from which σ²_inter and its gradient at this c follow.

    Attributes:
        coef: c, [K+1].
        sums: Σ_i Y_ic z_i, [C, D].
    """

    coef: FloatArray
    sums: FloatArray


@dataclass(frozen=True, eq=False)
class Hops:
    """H_0 … H_K of every node, and the sums that adaptation takes over them.

    Everything but `mix` and `classify` is a sum over nodes, so that the same few numbers can be
    gathered from blocks on disk or from the ranks of a cluster.

    Attributes:
        stack: [N, K+1, D], node-major: a node's hops lie side by side in memory.
        key: what the stack was made from; None for hops that never leave their maker.

    Example:
        >>> hops = Hops(torch.tensor([[[1.0], [2.0]], [[3.0], [0.0]]]))
        >>> hops.mix(torch.tensor([1.0, 0.5]))
        tensor([[2.],
                [3.]])
        >>> hops.gram
        array([[ 2., -2.],
               [-2.,  2.]])
    """

    stack: HopStack
    key: HopsKey | None = None
    _kept: dict[tuple[int, ...], tuple[kernels.Classifier | None, Tensor, "Hops"]] = field(
        default_factory=dict, init=False, repr=False
    )

    @property
    def num_nodes(self) -> int:
        """N."""
        return self.stack.shape[0]

    @cached_property
    def node_sums(self) -> FloatArray:
        """Σ_i H_k[i], [K+1, D]."""
        return kernels.node_sums(self.stack)

    @cached_property
    def mean(self) -> FloatArray:
        """Mean of each hop over nodes in float64, [K+1, D]."""
        return self.node_sums / self.num_nodes

    @cached_property
    def gram(self) -> HopForm:
        """S with σ²_total = cᵀ S c in float64, [K+1, K+1]; the same in every epoch."""
        return kernels.gram(self.stack, self.mean)

    def mix(self, coef: Coefficients) -> Repr:
        """Z = Σ_k c_k H_k, [N, D]."""
        return kernels.mix(self.stack, coef)

    def class_sums(self, weights: Tensor) -> ClassSums:
        """Σ_i weights[i, c] H_k[i] in float64, [C, K+1, D], for weights [N, C]."""
        return kernels.class_sums(self.stack, weights)

    def classify(
        self, coef: Coefficients, head: nn.Module, over: "Hops | None" = None
    ) -> tuple[Probs, ClassSums | MixedSums, FloatArray]:
        """Softmax predictions of a head on Z [N, C], class sums, mass [C].

        The class sums are of the hops `over`, of the same nodes; of these hops by default. They
        are whole, [C, K+1, D], or those of Z alone where `between_slope` costs less from them.

        With few classes a linear head is applied to the hops once and kept, and every later call is
        one read of the stack.
        """
        over = over or self
        if isinstance(head, nn.Linear) and (in_one_read := self._classifier(head, over)):
            return in_one_read(coef)
        probs, mixed, mass = kernels.classify_mixed(self.stack, coef, head)
        if probs.shape[1] < 2:
            raise IncompatibleError("model: one output, and classes are told apart from two on")
        if over is self and not kernels.whole_sums_pay(self.stack, probs.shape[1]):
            return probs, MixedSums(np.array(coef.tolist()), mixed), mass
        return probs, over.sums(coef, probs), mass

    def sums(self, coef: Coefficients, probs: Probs) -> ClassSums | MixedSums:
        """What `between_slope` needs of predictions [N, C], whichever costs less."""
        if kernels.whole_sums_pay(self.stack, probs.shape[1]):
            return self.class_sums(probs)
        mixed = kernels.mixed_sums(self.stack, coef, probs)
        return MixedSums(np.array(coef.tolist()), mixed)

    def between_slope(
        self, coef: FloatArray, probs: Probs, mass: FloatArray, sums: ClassSums | MixedSums,
        min_share: float,
    ) -> FloatArray:  # fmt: skip
        """B c with σ²_inter = cᵀ B c, [K+1]: half the gradient of σ²_inter in the hop weights.

        Args:
            coef: c, [K+1].
            probs: predictions, [N, C].
            mass: Σ_i Y_ic, [C].
            sums: from `classify` or `sums`; where they are of Z, at the same c.
            min_share: see `functional.between_form`.
        """
        if not isinstance(sums, MixedSums):
            return kernels.between_form(sums, mass, self.mean, min_share) @ coef
        kept = mass > min_share * mass.sum()
        centre = coef @ self.mean
        apart = np.where(kept[:, None], sums.sums - mass[:, None] * centre, 0)
        directions = apart / np.where(kept, mass, 1)[:, None]
        slope: FloatArray = kernels.hop_slopes(self.stack, probs, directions)
        return np.asarray(slope - self.mean @ apart.sum(0))

    def _keeps_logits(self, num_classes: int) -> bool:
        """Whether one read is the cheaper way, and hop logits are few beside the stack."""
        few = 0 < 3 * (num_classes - 1) <= self.stack.shape[2]
        return few and kernels.whole_sums_pay(self.stack, num_classes)

    def _classifier(self, head: nn.Linear, over: "Hops") -> kernels.Classifier | None:
        """The classifier of a head, kept until the head changes; None where it does not pay."""
        weight, bias = head.weight, head.bias
        versions = (weight._version, 0 if bias is None else bias._version)
        key = (weight.data_ptr(), *versions, id(over))
        if key not in self._kept:
            self._kept.clear()
            # What is kept keeps its address, which is in the key, from being given to another.
            self._kept[key] = self._new_classifier(head, over), weight, over
        return self._kept[key][0]

    def _new_classifier(self, head: nn.Linear, over: "Hops") -> kernels.Classifier | None:
        if not self._keeps_logits(head.out_features):
            return None
        weight = head.weight.detach()
        offset = weight.new_zeros(len(weight)) if head.bias is None else head.bias.detach()
        logits = kernels.hop_logits(self.stack, weight)
        return kernels.classifier(over.stack, logits, offset[:-1] - offset[-1], over.node_sums)

    def stored_as(self, dtype: torch.dtype) -> "Hops":
        """The same hops in another precision; in half of it every round reads half as much.

        Example:
            >>> hops = Hops(torch.tensor([[[1.0], [2.0]]])).stored_as(torch.float16)
            >>> hops.stack.dtype, hops.mix(torch.tensor([1.0, 0.5]))
            (torch.float16, tensor([[2.]]))
        """
        return Hops(self.stack.to(dtype), self.key)

    def require(self, key: HopsKey) -> "Hops":
        """Return these hops if they were made from what `key` says, else refuse."""
        if self.key == key:
            return self
        if self.key is None or self.key.graph != key.graph:
            raise IncompatibleError("hops: they were made from another graph than the one given")
        raise IncompatibleError("hops: they were made by another encoder than this model's")
