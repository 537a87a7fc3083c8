"""Step 2: the per-depth stack, kept with the key of the graph and encoder it was made from."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor, nn

from matcha_gnn import kernels
from matcha_gnn.errors import IncompatibleError
from matcha_gnn.typing import ClassSums, Coefficients, FloatArray, HopForm, HopStack, Probs, Repr


class HopsKey(NamedTuple):
    """Content hashes of what a stack was made from."""

    graph: str
    encoder: str


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
    _kept: dict[tuple[int, ...], tuple[kernels.Classifier, Tensor, "Hops"]] = field(
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
    ) -> tuple[Probs, ClassSums, FloatArray]:
        """Softmax predictions of a head on Z [N, C], class sums [C, K+1, D], mass [C].

        The class sums are of the hops `over`, of the same nodes; of these hops by default.

        With few classes a linear head is applied to the hops once and kept, and every later call is
        one read of the stack; with many, that would outgrow the stack itself.
        """
        over = over or self
        if isinstance(head, nn.Linear) and head.out_features - 1 <= self.stack.shape[2] // 4:
            return self._classifier(head, over)(coef)
        probs = head(self.mix(coef)).softmax(-1)
        return probs, over.class_sums(probs), probs.sum(0, dtype=torch.float64).cpu().numpy()

    def _classifier(self, head: nn.Linear, over: "Hops") -> kernels.Classifier:
        weight, bias = head.weight.detach(), head.bias
        versions = (weight._version, 0 if bias is None else bias._version)
        key = (weight.data_ptr(), *versions, id(over))
        if key not in self._kept:
            self._kept.clear()
            offset = weight.new_zeros(len(weight)) if bias is None else bias.detach()
            logits = kernels.hop_logits(self.stack, weight)
            apply = kernels.classifier(over.stack, logits, offset[:-1] - offset[-1], over.node_sums)
            # What is kept keeps its address, which is in the key, from being given to another.
            self._kept[key] = apply, weight, over
        return self._kept[key][0]

    def require(self, key: HopsKey) -> "Hops":
        """Return these hops if they were made from what `key` says, else refuse."""
        if self.key == key:
            return self
        if self.key is None or self.key.graph != key.graph:
            raise IncompatibleError("hops: they were made from another graph than the one given")
        raise IncompatibleError("hops: they were made by another encoder than this model's")
