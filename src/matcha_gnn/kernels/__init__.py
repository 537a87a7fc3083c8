"""Fast code, chosen by what the machine and the tensors allow, never by the user.

Every kernel has a reference implementation in `reference`; faster ones give the same numbers.
"""

from collections.abc import Callable
from typing import Any

from torch import Tensor, device, nn

from matcha_gnn.kernels import reference, two_pass
from matcha_gnn.kernels.devices import device_of, fast_code
from matcha_gnn.kernels.fallback import or_plain
from matcha_gnn.kernels.propagate import (
    Adjacency,
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
    "class_sums",
    "classifier",
    "classify_mixed",
    "filter_hops",
    "gram",
    "hop_logits",
    "hop_predictions",
    "hop_slopes",
    "mix",
    "mixed_sums",
    "node_sums",
    "one_hop",
    "propagate",
    "second_pass_pays",
    "turned",
    "whole_sums_pay",
]


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


def hop_predictions(logits: Tensor, bias: Tensor, hop_weights: HopWeights) -> Probs:
    """The predictions of a classifier without its sums, from hop logits alone: [N, C]."""
    probs: Probs = _fastest(logits, "hop_predictions")(logits, bias, hop_weights)
    return probs


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
    return num_classes * (num_hops - 2) <= num_hops * (1 + device_of(place).read_cost)


def second_pass_pays(stack: HopStack, num_classes: int) -> bool:
    """Whether `hop_slopes` cost less than whole sums where Z was read for the predictions already.

    Both take one more read then, and whole sums more work. Only devices with fast code for the
    first pass too follow this: elsewhere it has not been measured.
    """
    return _fast(stack, "classify", num_classes) is not None


def classify_mixed(
    stack: HopStack, hop_weights: HopWeights, head: nn.Module
) -> tuple[Probs, FloatArray, FloatArray]:
    """Softmax of a head on Z [N, C], Σ_i Y_ic z_i [C, D] and mass [C]: the first of two passes."""

    def plain(
        stack: HopStack, hop_weights: HopWeights, head: nn.Module
    ) -> tuple[Probs, FloatArray, FloatArray]:
        return two_pass.classify(stack, hop_weights, head, _fastest(stack, "mix"))

    if not isinstance(head, nn.Linear):
        return plain(stack, hop_weights, head)
    fast = _fast(stack, "classify", head.out_features)
    return or_plain(fast, plain)(stack, hop_weights, head)


def mixed_sums(stack: HopStack, hop_weights: HopWeights, probs: Probs) -> FloatArray:
    """Σ_i Y_ic z_i, [C, D], for predictions that are known."""
    return two_pass.mixed_sums(stack, hop_weights, probs, _fastest(stack, "mix"))


def hop_slopes(stack: HopStack, probs: Probs, directions: FloatArray) -> FloatArray:
    """Σ_i ⟨Σ_c Y_ic directions[c], H_k[i]⟩, [K+1]: the second of two passes."""

    def plain(stack: HopStack, probs: Probs, directions: FloatArray) -> FloatArray:
        return two_pass.hop_slopes(stack, probs, directions, reference.hop_dots)

    return or_plain(_fast(stack, "hop_slopes", len(directions)), plain)(stack, probs, directions)


def _fastest(stack: HopStack, name: str) -> Any:
    """The kernel of that name for this stack, or else the reference."""
    return or_plain(getattr(fast_code(stack), name, None), getattr(reference, name))


def _fast(stack: HopStack, name: str, num_classes: int) -> Callable[..., Any] | None:
    """The kernel of that name for this stack, if there is one and it takes so many classes."""
    module = fast_code(stack)
    fits = getattr(module, "fits", None)
    if fits is not None and not fits(stack, num_classes):
        return None
    return getattr(module, name, None)
