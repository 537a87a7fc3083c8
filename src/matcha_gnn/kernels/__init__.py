"""Fast code, chosen by what the machine and the tensors allow, never by the user.

Every kernel has its definition in `reference`; a faster twin gives the same numbers.
"""

from collections.abc import Callable
from functools import cache
from types import ModuleType

from torch import Tensor, float32

from matcha_gnn import functional
from matcha_gnn.kernels import reference
from matcha_gnn.kernels.dropout import masked_dropout
from matcha_gnn.kernels.propagate import Adjacency, filter_hops, one_hop, propagate
from matcha_gnn.typing import ClassSums, Coefficients, FloatArray, HopForm, HopStack, Probs, Repr

Classifier = Callable[[Coefficients], tuple[Probs, ClassSums, FloatArray]]
"""See `reference.Classifier`."""

__all__ = [
    "between_form",
    "Classifier",
    "Adjacency",
    "class_sums",
    "classifier",
    "filter_hops",
    "gram",
    "hop_logits",
    "masked_dropout",
    "mix",
    "node_sums",
    "one_hop",
    "propagate",
]


def mix(stack: HopStack, coef: Coefficients) -> Repr:
    """Z = Σ_k c_k H_k, [N, D]."""
    if coef.requires_grad or stack.requires_grad:
        return reference.mix(stack, coef)
    return _fastest(stack).mix(stack, coef)  # type: ignore[no-any-return]


def node_sums(stack: HopStack) -> FloatArray:
    """Σ_i H_k[i], [K+1, D]."""
    return reference.node_sums(stack)


def class_sums(stack: HopStack, weights: Tensor) -> ClassSums:
    """Σ_i weights[i, c] · H_k[i] in float64, [C, K+1, D]; weights is [N, C]."""
    return _fastest(stack).class_sums(stack, weights)  # type: ignore[no-any-return]


def hop_logits(stack: HopStack, weight: Tensor) -> Tensor:
    """Each hop's logits relative to the last class, [K+1, C−1, N], for a head's weight [C, D]."""
    return reference.hop_logits(stack, weight)


def classifier(stack: HopStack, logits: Tensor, bias: Tensor, node_sums: FloatArray) -> Classifier:
    """Predictions, class sums and mass as a function of the hop weights; see its attributes."""
    return _fastest(stack).Classifier(stack, logits, bias, node_sums)  # type: ignore[no-any-return]


def gram(stack: HopStack, mean: FloatArray) -> HopForm:
    """S_kl = Σ_i ⟨H_k[i] − m_k, H_l[i] − m_l⟩ in float64, [K+1, K+1]; mean is [K+1, D]."""
    return reference.gram(stack, mean)


def between_form(
    class_sums: ClassSums, mass: FloatArray, mean: FloatArray, min_share: float
) -> HopForm:
    """`functional.between_form`: B with σ²_inter = cᵀ B c, [K+1, K+1]."""
    form: HopForm = (_compiled() or functional).between_form(class_sums, mass, mean, min_share)
    return form


def _fastest(stack: HopStack) -> ModuleType:
    on_cpu = stack.is_cpu and stack.dtype is float32
    return (_compiled() or reference) if on_cpu else reference


@cache
def _compiled() -> ModuleType | None:
    # Imported on first use: numba takes half a second, and `import matcha_gnn` should not.
    try:
        from matcha_gnn.kernels import cpu
    except ImportError:
        return None
    return cpu
