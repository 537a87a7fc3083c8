"""The formulas of the losses, each in one place; functions of tensors and arrays.

The cluster losses exist in two forms that agree in value and gradient:

- on representations Z [N, D] and predictions Y [N, C], differentiable by autograd;
- from sums: with Z = Σ_k c_k H_k, the variances are quadratic forms in c,
  σ²_total = cᵀ S c and σ²_inter = cᵀ B c, so K+1 by K+1 numbers are all that is needed.
  These few numbers are float64 arrays on the host, wherever the hops are.
"""

import numpy as np
import scipy.linalg
import torch
from torch import Tensor

from matcha_gnn.typing import ClassSums, FloatArray, HopForm, Probs, Repr

_ROUNDING = 8
"""Units in the last place: deviations of 100,000 equal rows from their mean showed up to 4."""


def entropy(probs: Probs) -> Tensor:
    """Shannon entropy of each row in nats, [N]; 0 log 0 counts as 0.

    Example:
        >>> entropy(torch.tensor([[0.5, 0.5], [1.0, 0.0]]))
        tensor([0.6931, 0.0000])
    """
    terms: Tensor = torch.special.entr(probs)
    return terms.sum(-1)


def class_means(z: Repr, probs: Probs, min_share: float) -> tuple[Tensor, Tensor]:
    """Soft class means [C, D] and the mass of each class [C].

    A class that holds less than `min_share` of all mass is left out: its mass is returned as zero,
    so it adds nothing to σ²_inter.
    """
    mass = probs.sum(0)
    mass = torch.where(mass > min_share * mass.sum(), mass, torch.zeros_like(mass))
    safe = torch.where(mass > 0, mass, torch.ones_like(mass))
    return (probs.T @ z) / safe[:, None], mass


def inter_variance(z: Repr, probs: Probs, min_share: float) -> Tensor:
    """σ²_inter = Σ_c n_c ‖μ_c − μ‖², how far the soft classes lie apart (a sum over nodes)."""
    means, mass = class_means(z, probs, min_share)
    return (mass * (means - z.mean(0)).square().sum(1)).sum()


def total_variance(z: Repr) -> Tensor:
    """σ² = Σ_i ‖z_i − μ‖² = σ²_intra + σ²_inter."""
    return (z - z.mean(0)).square().sum()


def rounding_of(dtype: torch.dtype) -> float:
    """What a sum over rows may be off by, relative to the sum of their sizes."""
    return _ROUNDING * float(torch.finfo(dtype).eps)


def rounding_variance(size: float, dtype: torch.dtype) -> float:
    """σ² that rows which are all equal may show by rounding: no more than that is none.

    Args:
        size: √Σ_i ‖z_i‖².
        dtype: in which the rows are summed.

    Example:
        >>> equal = torch.full((9, 2), 0.1)
        >>> float(total_variance(equal)) <= rounding_variance(float(equal.norm()), torch.float32)
        True
    """
    return (rounding_of(dtype) * size) ** 2


def pic(z: Repr, probs: Probs, min_share: float) -> Tensor:
    """Prediction-informed clustering loss σ²_intra / σ² (equation 6 of the paper), in [0, 1].

    Written as 1 − σ²_inter / σ², the same by the decomposition of variance. Representations
    that are equal but for rounding have no clusters: the loss is 1 with zero gradient.
    """
    total = total_variance(z)
    if total <= rounding_variance(float(z.detach().norm()), z.dtype):
        return 1 - 0 * total
    return 1 - (inter_variance(z, probs, min_share) / total).clamp(max=1)


def difference(z: Repr, probs: Probs, min_share: float) -> Tensor:
    """(σ²_intra − σ²_inter) / N, the paper's ablation; per node, so that step sizes stay valid."""
    return (total_variance(z) - 2 * inter_variance(z, probs, min_share)) / z.shape[0]


def between_form(
    class_sums: ClassSums, mass: FloatArray, mean: FloatArray, min_share: float
) -> HopForm:
    """B with σ²_inter = cᵀ B c, [K+1, K+1]: the Gram matrix of (Σ_i Y_ic H_k[i] − n_c m_k) / √n_c.

    Args:
        class_sums: Σ_i Y_ic H_k[i], [C, K+1, D].
        mass: n_c = Σ_i Y_ic, [C].
        mean: m_k = mean_i H_k[i], [K+1, D].
        min_share: classes with less of the mass than this are left out.
    """
    kept = mass > min_share * mass.sum()
    if not kept.all():
        class_sums, mass = class_sums[kept], mass[kept]
    scale = np.sqrt(mass)[:, None, None]
    apart = class_sums / scale - scale * mean
    flat = apart.swapaxes(0, 1).reshape(mean.shape[0], -1)
    form: HopForm = flat @ flat.T
    return form


def between_slope(
    hop_weights: FloatArray,
    class_sums: ClassSums,
    mass: FloatArray,
    mean: FloatArray,
    min_share: float,
) -> FloatArray:
    """B c with B from `between_form`, [K+1]: less work than B itself, and all that a step needs."""
    shares = mass.tolist()
    if not min(shares) > min_share * sum(shares):
        kept = mass > min_share * mass.sum()
        class_sums, mass = class_sums[kept], mass[kept]
    apart = class_sums - mass[:, None, None] * mean
    along = hop_weights @ apart / mass[:, None]
    return np.asarray(np.einsum("ckd,cd->k", apart, along))


def pic_from_forms(
    hop_weights: FloatArray, between: HopForm, total: HopForm, least: float = 0.0
) -> tuple[float, FloatArray]:
    """PIC and its gradient in c from B and S; see `pic_from_slopes`.

    Example:
        >>> pic_from_forms(np.ones(2), np.eye(2), np.diag([2.0, 6.0]))
        (0.75, array([-0.125,  0.125]))
    """
    return pic_from_slopes(hop_weights, between @ hop_weights, total @ hop_weights, least)


def pic_from_slopes(
    hop_weights: FloatArray, between: FloatArray, total: FloatArray, least: float = 0.0
) -> tuple[float, FloatArray]:
    """PIC and its gradient in c from Bc and Sc: 1 − cᵀBc / cᵀSc, and −2 (Bc·s − b·Sc) / s².

    Args:
        hop_weights: c, [K+1].
        between: Bc, [K+1].
        total: Sc, [K+1].
        least: a variance that is not above this is none: the loss is 1 with zero gradient.

    Example:
        >>> pic_from_slopes(np.ones(2), np.array([1.0, 1.0]), np.array([2.0, 6.0]))
        (0.75, array([-0.125,  0.125]))
    """
    inter, variance = float(hop_weights @ between), float(hop_weights @ total)
    if variance <= least:
        return 1.0, np.zeros_like(hop_weights)
    # In this order a ratio that is NaN stays so.
    ratio = min(max(inter / variance, 0.0), 1.0)
    return 1 - ratio, (between - ratio * total) * (-2 / variance)


def difference_from_slopes(
    hop_weights: FloatArray, between: FloatArray, total: FloatArray, num_nodes: int
) -> tuple[float, FloatArray]:
    """`difference` and its gradient in c from Bc and Sc."""
    slope = (total - 2 * between) / num_nodes
    return float(hop_weights @ slope), 2 * slope


def best_hop_weights(between: HopForm, total: HopForm) -> FloatArray:
    """The c that minimises PIC for fixed predictions: top generalised eigenvector of (B, S).

    Scaled to unit total variance; its sign is arbitrary, as PIC does not depend on it. NaN where
    there is none: no variance, or forms that are not finite.
    """
    if not (np.isfinite(total).all() and np.isfinite(between).all() and total.any()):
        return np.full(len(total), np.nan)
    # S is singular when hops repeat (K large, or a graph without edges): drop its null space.
    values, vectors = scipy.linalg.eigh(total)
    kept = values > values[-1] * len(total) * np.finfo(float).eps
    whitening = vectors[:, kept] / np.sqrt(values[kept])
    best: FloatArray = whitening @ scipy.linalg.eigh(whitening.T @ between @ whitening)[1][:, -1]
    return best


def stein_risk(hop_weights: FloatArray, gram: HopForm, signal: FloatArray, noise: float) -> float:
    """Stein's estimate of E‖Σ_k c_k ℓ_k − signal‖² per node: cᵀSc − 2 cᵀs + S_00 − σ².

    Args:
        hop_weights: c, [K+1].
        gram: S_jk = mean_i ⟨ℓ_j[i], ℓ_k[i]⟩, [K+1, K+1]; ℓ_0 is the signal plus noise.
        signal: s, the covariance of each ℓ_k with the noise-free signal, [K+1].
        noise: σ², the noise's variance per node.

    Example:
        >>> first, mixed = np.array([1.0, 0.0]), np.array([0.5, 0.5])
        >>> gram, signal, noise = np.eye(2), np.array([0.5, 0.25]), 0.5
        >>> stein_risk(first, gram, signal, noise), stein_risk(mixed, gram, signal, noise)
        (0.5, 0.25)
    """
    return float(hop_weights @ gram @ hop_weights - 2 * hop_weights @ signal + gram[0, 0] - noise)


def scaled_stein_risk(
    hop_weights: FloatArray, gram: HopForm, signal: FloatArray, noise: float
) -> tuple[float, FloatArray]:
    """`stein_risk` of the best multiple of c, S_00 − σ² − (cᵀs)² / cᵀSc, and its gradient in c.

    Labels do not change with the scale of the logits, so neither should the risk. For c that point
    away from the signal, whose best multiple is negative, the last term is added instead.
    """
    slope = gram @ hop_weights
    size, along = float(hop_weights @ slope), float(hop_weights @ signal)
    if size <= 0:
        return float(gram[0, 0] - noise), np.zeros_like(hop_weights)
    gained = along * abs(along) / size
    gradient = (gained / size) * slope - (abs(along) / size) * signal
    return float(gram[0, 0] - noise - gained), 2 * gradient


def stein_hop_weights(gram: HopForm, signal: FloatArray) -> FloatArray:
    """The c that minimises `stein_risk`: S⁻¹ s, without the directions in which S is zero.

    NaN where the form is not finite.
    """
    if not (np.isfinite(gram).all() and np.isfinite(signal).all()):
        return np.full(len(gram), np.nan)
    smallest = len(gram) * float(np.finfo(np.float32).eps)
    best = np.linalg.lstsq(gram, signal, rcond=smallest)[0]
    return best.astype(np.float64)


def entropy_terms(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Entropy of softmax(logits) per node [N], and its derivative in the logits [N, C]."""
    log_probs = logits.log_softmax(-1)
    probs = log_probs.exp()
    value = -(probs * log_probs).sum(-1)
    return value, -probs * (log_probs + value[:, None])


def pseudo_label_terms(logits: Tensor, probs: Probs) -> tuple[Tensor, Tensor]:
    """Cross entropy of softmax(logits) against argmax(probs), [N], and its derivative [N, C]."""
    labels = probs.argmax(-1, keepdim=True)
    log_probs = logits.log_softmax(-1)
    slope = log_probs.exp().scatter_add(-1, labels, -torch.ones_like(labels, dtype=logits.dtype))
    return -log_probs.gather(-1, labels).squeeze(-1), slope
