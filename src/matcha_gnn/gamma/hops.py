"""Hops H_0 … H_K as one stack, with the key of the graph and encoder it was made from."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from matcha_gnn import kernels
from matcha_gnn.errors import IncompatibleError
from matcha_gnn.gamma import functional
from matcha_gnn.kernels.devices import device_of
from matcha_gnn.typing import ClassSums, FloatArray, HopForm, HopStack, HopWeights, Probs, Repr


class HopsKey(NamedTuple):
    """Content hashes of what a stack was made from."""

    graph: str
    encoder: str


class MixedSums(NamedTuple):
    """Σ_i Y_ic z_i, [C, D], at one c, [K+1]: σ²_inter and its gradient at this c follow."""

    hop_weights: FloatArray
    sums: FloatArray


def _named(hop_weights: HopWeights, sums: FloatArray) -> ClassSums | MixedSums:
    """Class sums are of every hop, [C, K+1, D], or of Z alone, [C, D]."""
    return sums if sums.ndim == 3 else MixedSums(np.array(hop_weights.tolist()), sums)


@dataclass(frozen=True, eq=False)
class Hops:
    """H_0 … H_K of every node, and the sums that adaptation takes over them.

    Attributes:
        stack: [N, K+1, D], node-major: a node's hops lie side by side in memory.
        key: what the stack was made from; None for hops that are not passed on.
        mixed: Z at one γ is the only hop, and stands for the hops of a model whose γ stays.

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
    mixed: bool = False
    _kept: dict[tuple[int, ...], tuple[kernels.Classifier | None, Tensor, "Hops | None"]] = field(
        default_factory=dict, init=False, repr=False
    )
    _logits: list[tuple[Tensor, Tensor]] = field(default_factory=list, init=False, repr=False)

    @property
    def shape(self) -> tuple[int, int, int]:
        """N, K+1 and D."""
        nodes, hops, width = self.stack.shape
        return nodes, hops, width

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
        """S with σ²_total = cᵀ S c in float64, [K+1, K+1]; the same in every round."""
        form = kernels.gram(self.stack, self.mean)
        # Squares of hops from 1e19 on are too large for float32.
        return form if np.isfinite(form).all() else kernels.gram(self.stack.double(), self.mean)

    @cached_property
    def sizes(self) -> FloatArray:
        """√Σ_i ‖H_k[i]‖², [K+1]."""
        squares = np.diag(self.gram) + self.num_nodes * np.square(self.mean).sum(1)
        return np.asarray(np.sqrt(squares))

    @property
    def summed_in(self) -> torch.dtype:
        """The precision of sums over a block of nodes."""
        return torch.float64 if self.stack.dtype == torch.float64 else torch.float32

    def mix(self, hop_weights: HopWeights) -> Repr:
        """Z = Σ_k c_k H_k, [N, D]."""
        return kernels.mix(self.stack, hop_weights)

    def hop_logits(self, head: nn.Linear) -> Iterator[tuple[slice, Tensor]]:
        """Rows, and the logits of each of their hops by itself relative to those of the last class.

        In float64 and class by class, [K+1, C−1, n]; without the head's bias.
        """
        weight = head.weight.detach()
        few = max(1, device_of(weight).block_floats // (8 * self.shape[1] * len(weight)))
        if self._keeps_logits(len(weight)):
            kept = self._relative_logits(weight)
            for first in range(0, kept.shape[2], few):
                logits = kept[..., first : first + few].double()
                yield slice(first, first + logits.shape[2]), logits
            return
        for first in range(0, len(self.stack), few):
            logits = kernels.hop_logits(self.stack[first : first + few].double(), weight.double())
            yield slice(first, first + logits.shape[2]), logits

    def class_sums(self, weights: Tensor) -> ClassSums:
        """Σ_i weights[i, c] H_k[i] in float64, [C, K+1, D], for weights [N, C]."""
        return kernels.class_sums(self.stack, weights)

    def classify(
        self, hop_weights: HopWeights, head: nn.Module, over: "Hops | None" = None
    ) -> tuple[Probs, ClassSums | MixedSums, FloatArray]:
        """Softmax predictions of a head on Z [N, C], class sums, mass [C].

        The class sums are of the hops `over`, of the same nodes; of these hops by default. They
        are of every hop, [C, K+1, D], or of Z alone where `between_slope` costs less from them.

        With few classes a linear head is applied to the hops once and kept, and every later call is
        one read of the stack.
        """
        over = over or self
        if isinstance(head, nn.Linear):
            once = self.mixed and kernels.second_pass_pays(self.stack, head.out_features)
            in_one_read = None if once else self._classifier(head, over)
            if in_one_read:
                return in_one_read(hop_weights)
        probs, sums, mass = self._classify_mixed(hop_weights, head)
        classes = probs.shape[1]
        whole = self._whole_sums_pay(classes)
        if over is not self or (whole and not kernels.second_pass_pays(self.stack, classes)):
            sums = over._sums(hop_weights, probs)
        return probs, _named(hop_weights, sums), mass

    def predict(self, hop_weights: HopWeights, head: nn.Module) -> tuple[Probs, FloatArray]:
        """The predictions of `classify` [N, C] and their mass [C], without class sums.

        Where hop logits are kept, the stack is not read.
        """
        if isinstance(head, nn.Linear) and self._keeps_logits(head.out_features):
            probs = kernels.hop_predictions(*self._head_logits(head), hop_weights)
            return probs, np.asarray(probs.sum(0, dtype=torch.float64).cpu())
        probs, _, mass = self._classify_mixed(hop_weights, head)
        return probs, mass

    def sums(self, hop_weights: HopWeights, probs: Probs) -> ClassSums | MixedSums:
        """The sums that `between_slope` needs for predictions [N, C], whichever cost less."""
        return _named(hop_weights, self._sums(hop_weights, probs))

    def _sums(self, hop_weights: HopWeights, probs: Probs) -> FloatArray:
        if self._whole_sums_pay(probs.shape[1]):
            first = self.class_sums(probs[:, :-1])
            return np.concatenate([first, (self.node_sums - first.sum(0))[None]])
        return kernels.mixed_sums(self.stack, hop_weights, probs)

    def _classify_mixed(
        self, hop_weights: HopWeights, head: nn.Module
    ) -> tuple[Probs, FloatArray, FloatArray]:
        """The first of two passes over the nodes."""
        probs, sums, mass = kernels.classify_mixed(self.stack, hop_weights, head)
        if probs.shape[1] < 2:
            raise IncompatibleError("model: expected at least 2 classes, got 1")
        return probs, sums, mass

    def between_slope(
        self, hop_weights: FloatArray, probs: Probs, mass: FloatArray, sums: ClassSums | MixedSums,
        min_share: float,
    ) -> FloatArray:  # fmt: skip
        """B c with σ²_inter = cᵀ B c, [K+1]: half the gradient of σ²_inter in the hop weights.

        Of c [K+1], predictions [N, C], their mass Σ_i Y_ic [C], and sums from `classify` or `sums`;
        where these are of Z, at the same c. `min_share` as in `functional.between_form`.
        """
        if not isinstance(sums, MixedSums):
            return functional.between_slope(hop_weights, sums, mass, self.mean, min_share)
        kept = mass > min_share * mass.sum()
        centre = hop_weights @ self.mean
        apart = np.where(kept[:, None], sums.sums - mass[:, None] * centre, 0)
        directions = apart / np.where(kept, mass, 1)[:, None]
        slopes = kernels.hop_slopes(self.stack, probs, directions)
        slope = np.asarray(slopes - self.mean @ apart.sum(0))
        if np.isfinite(slope).all():
            return slope
        # Products of hops may be too large for float32; sums are not.
        whole = self.class_sums(probs)
        return functional.between_slope(hop_weights, whole, mass, self.mean, min_share)

    def _whole_sums_pay(self, num_classes: int) -> bool:
        return kernels.whole_sums_pay(self.shape[1], num_classes, self.stack.device)

    def _keeps_logits(self, num_classes: int) -> bool:
        """Whether one read costs less, and hop logits are few compared with the stack."""
        few = 0 < 3 * (num_classes - 1) <= self.shape[2]
        return few and self._whole_sums_pay(num_classes)

    def _classifier(self, head: nn.Linear, over: "Hops") -> kernels.Classifier | None:
        """The classifier of a head, kept until the head changes; None where it does not pay."""
        weight, bias = head.weight, head.bias
        versions = (weight._version, 0 if bias is None else bias._version)
        key = (weight.data_ptr(), *versions, id(over))
        if key not in self._kept:
            self._kept.clear()
            # Holding the weight keeps its address, which is in the key, from being used again. Hops
            # that held themselves would stay in memory until cycles are looked for.
            other, made = None if over is self else over, None
            if self._keeps_logits(head.out_features):
                made = kernels.classifier(over.stack, *self._head_logits(head), over.node_sums)
            self._kept[key] = made, weight, other
        return self._kept[key][0]

    def _head_logits(self, head: nn.Linear) -> tuple[Tensor, Tensor]:
        """Logits of each hop and the bias, relative to the last class, [K+1, C−1, N] and [C−1]."""
        weight = head.weight.detach()
        offset = weight.new_zeros(len(weight)) if head.bias is None else head.bias.detach()
        return self._relative_logits(weight), offset[:-1] - offset[-1]

    def _relative_logits(self, weight: Tensor) -> Tensor:
        """See `kernels.hop_logits`; kept for the next model with the same weight."""
        if not (self._logits and torch.equal(self._logits[0][0], weight)):
            self._logits.clear()
            self._logits.append((weight.clone(), kernels.hop_logits(self.stack, weight)))
        return self._logits[0][1]

    def require(self, key: HopsKey) -> "Hops":
        """Return these hops if they have this key; raise IncompatibleError otherwise."""
        if self.key == key:
            return self
        if self.key is None or self.key.graph != key.graph:
            raise IncompatibleError("hops: made from another graph than the one given")
        raise IncompatibleError("hops: made by another encoder than this model's")
