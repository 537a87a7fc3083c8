"""Fast code, chosen by what the machine and the tensors allow, never by the user.

Every kernel has a reference implementation in `reference`; faster ones give the same numbers.
"""

from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import Any

from torch import Tensor, device, float32, nn

from matcha_gnn.kernels import cpu, reference, two_pass
from matcha_gnn.kernels.dropout import masked_dropout
from matcha_gnn.kernels.propagate import (
    Adjacency,
    Operator,
    csr_rows,
    filter_hops,
    one_hop,
    propagate,
)
from matcha_gnn.kernels.reference import turned
from matcha_gnn.typing import ClassSums, FloatArray, HopForm, HopStack, HopWeights, Probs, Repr

Classifier = Callable[[HopWeights], tuple[Probs, ClassSums, FloatArray]]
"""See `reference.Classifier`."""

__all__ = [
    "Classifier",
    "Adjacency",
    "Operator",
    "class_sums",
    "classifier",
    "classify_mixed",
    "csr_rows",
    "filter_hops",
    "gram",
    "hop_logits",
    "hop_slopes",
    "masked_dropout",
    "mix",
    "mixed_sums",
    "node_sums",
    "one_hop",
    "propagate",
    "second_pass_pays",
    "turned",
    "whole_sums_pay",
]

STORED_ON_GPU = (float32, *reference.HALF)
"""Precisions that the GPU kernels read."""
READ_COST = {"cpu": 10, "cuda": 30}
"""Multiplications in the time that reading one number takes."""


def mix(stack: HopStack, hop_weights: HopWeights) -> Repr:
    """Z = Σ_k c_k H_k, [N, D]."""
    if hop_weights.requires_grad or stack.requires_grad:
        return reference.mix(stack, hop_weights)
    mixed: Repr = _fastest(stack, "mix")(stack, hop_weights)
    return mixed


def node_sums(stack: HopStack) -> FloatArray:
    """Σ_i H_k[i], [K+1, D]."""
    sums: FloatArray = _fastest(stack, "node_sums")(stack)
    return sums


def class_sums(stack: HopStack, weights: Tensor) -> ClassSums:
    """Σ_i weights[i, c] · H_k[i] in float64, [C, K+1, D]; weights is [N, C]."""
    sums: ClassSums = _fastest(stack, "class_sums")(stack, weights)
    return sums


def hop_logits(stack: HopStack, weight: Tensor) -> Tensor:
    """Each hop's logits relative to the last class, [K+1, C−1, N], for a head's weight [C, D]."""
    return reference.hop_logits(stack, weight)


def classifier(stack: HopStack, logits: Tensor, bias: Tensor, node_sums: FloatArray) -> Classifier:
    """Predictions, class sums and mass as a function of the hop weights; see its attributes."""
    made: Classifier = _fastest(stack, "Classifier")(stack, logits, bias, node_sums)
    return made


def gram(stack: HopStack, mean: FloatArray) -> HopForm:
    """S_kl = Σ_i ⟨H_k[i] − m_k, H_l[i] − m_l⟩ in float64, [K+1, K+1]; mean is [K+1, D]."""
    form: HopForm = _fastest(stack, "gram")(stack, mean)
    return form


def whole_sums_pay(num_hops: int, num_classes: int, place: device) -> bool:
    """Whether class sums of every hop, in one read, cost less than two reads through Z.

    One read takes C·(K+1)·D multiplications for a node; two take one read more, (K+1)·D and 2·C·D.

    Args:
        num_hops: K+1.
        num_classes: C.
        place: where the hops are.
    """
    return num_classes * (num_hops - 2) <= num_hops * (1 + READ_COST[place.type])


def second_pass_pays(stack: HopStack, num_classes: int) -> bool:
    """Whether `hop_slopes` cost less than whole sums where Z was read for the predictions already.

    Both take one more read then, and whole sums more work. Only a GPU's choice follows this: on a
    CPU it has not been measured.
    """
    return _two_passes_on_gpu(stack, num_classes) is not None


def classify_mixed(
    stack: HopStack, hop_weights: HopWeights, head: nn.Module
) -> tuple[Probs, FloatArray, FloatArray]:
    """Softmax of a head on Z [N, C], Σ_i Y_ic z_i [C, D] and mass [C]: the first of two passes."""
    if isinstance(head, nn.Linear) and (fast := _two_passes_on_gpu(stack, head.out_features)):
        found: tuple[Probs, FloatArray, FloatArray] = fast.classify(stack, hop_weights, head)
        return found
    return two_pass.classify(stack, hop_weights, head, _fastest(stack, "mix"))


def mixed_sums(stack: HopStack, hop_weights: HopWeights, probs: Probs) -> FloatArray:
    """Σ_i Y_ic z_i, [C, D], for predictions that are known."""
    return two_pass.mixed_sums(stack, hop_weights, probs, _fastest(stack, "mix"))


def hop_slopes(stack: HopStack, probs: Probs, directions: FloatArray) -> FloatArray:
    """Σ_i ⟨Σ_c Y_ic directions[c], H_k[i]⟩, [K+1]: the second of two passes."""
    fast = _compiled(stack) if stack.is_cpu else _two_passes_on_gpu(stack, len(directions))
    if fast:
        slopes: FloatArray = fast.hop_slopes(stack, probs, directions)
        return slopes
    return two_pass.hop_slopes(stack, probs, directions, reference.hop_dots)


def _fastest(stack: HopStack, name: str) -> Any:
    """The kernel of that name in the module for this stack, or else the reference."""
    return getattr(_compiled(stack), name, None) or getattr(reference, name)


def _two_passes_on_gpu(stack: HopStack, num_classes: int) -> ModuleType | None:
    """The module for this stack, if it is a GPU's and has room for both passes."""
    fast = _compiled(stack) if stack.is_cuda else None
    return fast if fast and fast.fits(stack, num_classes) else None


def _compiled(stack: HopStack) -> ModuleType | None:
    if stack.is_cpu:
        return cpu if stack.dtype is float32 else None
    return _triton_kernels() if stack.is_cuda and stack.dtype in STORED_ON_GPU else None


@cache
def _triton_kernels() -> ModuleType | None:
    try:
        # Takes half a second, and `import matcha_gnn` should not.
        from matcha_gnn.kernels import gpu
    except ImportError:
        return None
    return gpu
