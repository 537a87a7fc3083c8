"""Closed-form accuracies of a graph convolution on the contextual stochastic block model.

Two balanced classes `y = +1` and `y = -1` have attributes `x ~ N(y mu, I)`. Every node has degree
`d`, and a share `h` (its homophily) of its neighbours carries its own label. The model adds the
neighbourhood mean, weighted by `gamma`, to the node and classifies the sum linearly:

    z_i = x_i + gamma * mean(x_j for j in neighbours of i),    label_i = sign(w . z_i + b)

Only the length of `mu` matters, in units of the attribute noise: it is called `signal` here.
The functions answer how accurate the model is, how much of a drop on another graph is the fault
of the representation and how much of the classifier, and which `gamma` is best.

Numbered results are those of the Matcha paper; its appendix extends them to several hops.
"""

from dataclasses import dataclass
from typing import overload

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr

from matcha_gnn.errors import InvalidArgumentError
from matcha_paper.theory_arguments import (
    FloatArray,
    checked_hops,
    cosine,
    finite,
    non_negative,
    positive,
    share,
)

__all__ = [
    "AccuracyGap",
    "accuracy_gap",
    "best_gamma",
    "best_gamma_hops",
    "expected_accuracy",
    "expected_accuracy_hops",
    "transferred_accuracy",
]

FloatOrArray = float | FloatArray


@dataclass(frozen=True)
class AccuracyGap:
    """The accuracy lost between a source and a target graph, split by cause.

    Formula: `total = representation_degradation + classifier_bias`.

    Reference: the decomposition that precedes Proposition 3.3.

    Args:
        source_accuracy: source model on the source graph.
        best_target_accuracy: source featurizer on the target graph, under its best classifier.
        target_accuracy: source model, classifier included, on the target graph.

    Example:
        >>> gap = AccuracyGap(source_accuracy=0.75, best_target_accuracy=0.625, target_accuracy=0.5)
        >>> gap.total, gap.representation_degradation, gap.classifier_bias
        (0.25, 0.125, 0.125)
    """

    source_accuracy: float
    best_target_accuracy: float
    target_accuracy: float

    @property
    def total(self) -> float:
        """Accuracy that the unchanged model loses on the target graph."""
        return self.source_accuracy - self.target_accuracy

    @property
    def representation_degradation(self) -> float:
        """Loss that no classifier can undo: the paper's Delta_f."""
        return self.source_accuracy - self.best_target_accuracy

    @property
    def classifier_bias(self) -> float:
        """Loss that the best classifier on the target would undo: the paper's Delta_g."""
        return self.best_target_accuracy - self.target_accuracy


# An argument list of floats also fits the second signature; the first one wins for type checkers.
@overload
def expected_accuracy(  # type: ignore[overload-overlap]
    gamma: float, degree: float, homophily: float, signal: float
) -> float: ...
@overload
def expected_accuracy(
    gamma: FloatOrArray, degree: FloatOrArray, homophily: FloatOrArray, signal: FloatOrArray
) -> FloatArray: ...
def expected_accuracy(
    gamma: FloatOrArray, degree: FloatOrArray, homophily: FloatOrArray, signal: FloatOrArray
) -> FloatOrArray:
    """Accuracy of a one-hop graph convolution under its best linear classifier.

    Formula: `Phi(sqrt(d / (d + gamma^2)) * |1 + gamma (2h - 1)| * signal)`, with `Phi` the
    standard normal distribution function.

    Reference: Corollary 3.2.

    Args:
        gamma: weight of the neighbourhood mean relative to the node itself.
        degree: number of neighbours of every node, > 0.
        homophily: share of neighbours with the node's own label, in [0, 1].
        signal: length of the class mean `mu` in units of the attribute noise, >= 0.

    Returns:
        The accuracy: a float if all arguments are, else an array of the arguments' common shape.

    Raises:
        InvalidArgumentError: an argument is outside its range or not finite.

    Example:
        Neighbours of random labels only add noise, so ignoring them (`gamma = 0`) is better:

        >>> accuracy = expected_accuracy(np.array([10.0, 0.0]), degree=10, homophily=0.5, signal=1)
        >>> accuracy.round(2).tolist()
        [0.62, 0.84]
    """
    gamma_ = finite("gamma", gamma)
    degree_ = positive("degree", degree)
    homophily_ = share("homophily", homophily)
    mean = _class_mean(gamma_, homophily_, non_negative("signal", signal))
    return _float_if_scalar(ndtr(np.abs(mean) / _noise(gamma_, degree_)))


def transferred_accuracy(
    gamma: float,
    *,
    source_homophily: float,
    target_degree: float,
    target_homophily: float,
    signal: float,
    shift_norm: float = 0.0,
    shift_cosine: float = 1.0,
) -> float:
    """Accuracy on a target graph of a one-hop model that keeps its source classifier.

    The source classifier is `w = s mu / |mu|` with `s = sign(1 + gamma (2 h_S - 1))`, and `b = 0`.
    On the target both class means have moved by the same vector `delta`.

    Formula: `(Phi(m + o) + Phi(m - o)) / 2`, with

    - margin `m = s (1 + gamma (2 h_T - 1)) * signal / sqrt(1 + gamma^2 / d_T)`,
    - offset `o = s (1 + gamma) * cos(mu, delta) * |delta| / sqrt(1 + gamma^2 / d_T)`.

    The source degree is absent because the classifier does not depend on it.

    Reference: proofs of Propositions 3.3 (`h_T = h_S`) and 3.4 (`delta = 0`), here combined.

    Args:
        gamma: weight of the neighbourhood mean, the same on both graphs.
        source_homophily: homophily of the graph on which the classifier was trained, in [0, 1].
        target_degree: degree of every node of the target graph, > 0.
        target_homophily: homophily of the target graph, in [0, 1].
        signal: length of the class mean `mu` in units of the attribute noise, >= 0.
        shift_norm: length of `delta` in the same units, >= 0.
        shift_cosine: cosine of the angle between `mu` and `delta`, in [-1, 1]. A shift across
            `mu` (cosine 0) costs nothing.

    Returns:
        The accuracy. It is below one half if the homophily shift turns the representation round.

    Raises:
        InvalidArgumentError: an argument is outside its range or not finite.

    Example:
        >>> graph = dict(source_homophily=0.8, target_degree=5, target_homophily=0.8, signal=1)
        >>> round(transferred_accuracy(1.0, **graph), 3)
        0.928
        >>> round(transferred_accuracy(1.0, **graph, shift_norm=0.5), 3)
        0.85
        >>> round(transferred_accuracy(1.0, **graph, shift_norm=0.5, shift_cosine=0), 3)
        0.928
    """
    gamma_ = finite("gamma", gamma)
    signal_ = non_negative("signal", signal)
    noise = _noise(gamma_, positive("target_degree", target_degree))
    direction = np.sign(1 + gamma_ * _label_agreement(share("source_homophily", source_homophily)))
    target_mean = _class_mean(gamma_, share("target_homophily", target_homophily), signal_)
    shift = non_negative("shift_norm", shift_norm) * cosine("shift_cosine", shift_cosine)
    margin = direction * target_mean / noise
    offset = direction * (1 + gamma_) * shift / noise
    return float((ndtr(margin + offset) + ndtr(margin - offset)) / 2)


def accuracy_gap(
    gamma: float,
    *,
    source_degree: float,
    source_homophily: float,
    target_degree: float,
    target_homophily: float,
    signal: float,
    shift_norm: float = 0.0,
    shift_cosine: float = 1.0,
) -> AccuracyGap:
    """Accuracy lost between two graphs, split into representation and classifier.

    Formula: with `A` of `expected_accuracy` and `B` of `transferred_accuracy`, the three
    accuracies are `A(gamma, d_S, h_S)`, `A(gamma, d_T, h_T)` and `B(gamma, h_S, d_T, h_T, delta)`.
    A shift of the attributes does not enter the second: a new intercept cancels it.

    Reference: Propositions 3.3 (a shift of attributes biases the classifier only) and 3.4 (a shift
    of structure within the homophilic range degrades the representation only).

    Args:
        gamma: weight of the neighbourhood mean, the same on both graphs.
        source_degree: degree of every node of the source graph, > 0.
        source_homophily: homophily of the source graph, in [0, 1].
        target_degree: degree of every node of the target graph, > 0.
        target_homophily: homophily of the target graph, in [0, 1].
        signal: length of the class mean `mu` in units of the attribute noise, >= 0.
        shift_norm: length of the vector by which the attributes of the target moved, >= 0.
        shift_cosine: cosine of the angle between `mu` and that vector, in [-1, 1].

    Returns:
        The three accuracies, whose differences are the parts of the gap.

    Raises:
        InvalidArgumentError: an argument is outside its range or not finite.

    Example:
        >>> source = dict(source_degree=10, source_homophily=0.9, signal=1)
        >>> structure = accuracy_gap(2.0, **source, target_degree=5, target_homophily=0.6)
        >>> round(structure.representation_degradation, 3), structure.classifier_bias
        (0.134, 0.0)
        >>> attributes = accuracy_gap(
        ...     2.0, **source, target_degree=10, target_homophily=0.9, shift_norm=0.5
        ... )
        >>> attributes.representation_degradation, round(attributes.classifier_bias, 3)
        (0.0, 0.074)
    """
    positive("source_degree", source_degree)  # named here, as expected_accuracy says "degree"
    target_accuracy = transferred_accuracy(
        gamma,
        source_homophily=source_homophily,
        target_degree=target_degree,
        target_homophily=target_homophily,
        signal=signal,
        shift_norm=shift_norm,
        shift_cosine=shift_cosine,
    )
    return AccuracyGap(
        source_accuracy=expected_accuracy(gamma, source_degree, source_homophily, signal),
        best_target_accuracy=expected_accuracy(gamma, target_degree, target_homophily, signal),
        target_accuracy=target_accuracy,
    )


@overload
def best_gamma(degree: float, homophily: float) -> float: ...  # type: ignore[overload-overlap]
@overload
def best_gamma(degree: FloatOrArray, homophily: FloatOrArray) -> FloatArray: ...
def best_gamma(degree: FloatOrArray, homophily: FloatOrArray) -> FloatOrArray:
    """Neighbourhood weight that gives a one-hop graph convolution its highest accuracy.

    Formula: `gamma = d (2h - 1)`, which reaches the accuracy `Phi(sqrt(1 + d (2h - 1)^2) signal)`.

    Reference: Proposition 3.5 and the lemma in its proof.

    Args:
        degree: number of neighbours of every node, > 0.
        homophily: share of neighbours with the node's own label, in [0, 1].

    Returns:
        The weight: a float if both arguments are, else an array of their common shape. It is
        negative under heterophily, where neighbours vote for the other class.

    Raises:
        InvalidArgumentError: an argument is outside its range or not finite.

    Example:
        >>> best_gamma(degree=10, homophily=1)
        10.0
        >>> best_gamma(degree=10, homophily=np.array([0.0, 0.5, 1.0])).tolist()
        [-10.0, 0.0, 10.0]
    """
    agreement = _label_agreement(share("homophily", homophily))
    return _float_if_scalar(positive("degree", degree) * agreement)


def expected_accuracy_hops(
    gammas: ArrayLike, degrees: ArrayLike, homophilies: ArrayLike, signal: float
) -> float:
    """Accuracy of a graph convolution over several hops under its best linear classifier.

    The representation is the sum over hops `k = 0 .. K` of `gamma_k` times the mean attribute of
    the nodes at distance `k`. Hop 0 is the node itself: degree 1 and homophily 1.

    Formula: `Phi(|sum_k gamma_k (2 h_k - 1)| / sqrt(sum_k gamma_k^2 / d_k) * signal)`.

    Reference: the multi-hop proposition of the appendix; Corollary 3.2 is `gammas = [1, gamma]`.

    Args:
        gammas: weight of each hop, hop 0 first; K + 1 numbers, not all zero. Their common scale
            does not matter.
        degrees: number of nodes at each distance, > 0; the first is 1.
        homophilies: share of the nodes at each distance with the node's own label, in [0, 1]; the
            first is 1.
        signal: length of the class mean `mu` in units of the attribute noise, >= 0.

    Returns:
        The accuracy.

    Raises:
        InvalidArgumentError: the lengths differ, hop 0 is not the node itself, all weights are
            zero, or a value is outside its range or not finite.

    Example:
        >>> one_hop = expected_accuracy_hops([1, 10], [1, 10], [1, 0.5], signal=1)
        >>> round(one_hop, 2)
        0.62
        >>> round(expected_accuracy_hops([1, 10, 4], [1, 10, 40], [1, 0.5, 0.7], signal=1), 2)
        0.78
    """
    degrees_, homophilies_ = checked_hops(degrees, homophilies)
    gammas_ = finite("gammas", gammas)
    if gammas_.shape != degrees_.shape:
        raise InvalidArgumentError(
            "gammas", f"shape {gammas_.shape}", f"the shape of degrees, {degrees_.shape}"
        )
    if not gammas_.any():
        raise InvalidArgumentError("gammas", "zeros only", "at least one number other than 0")
    mean = gammas_ @ _label_agreement(homophilies_) * non_negative("signal", signal)
    noise = np.linalg.norm(gammas_ / np.sqrt(degrees_))
    return float(ndtr(np.abs(mean) / noise))


def best_gamma_hops(degrees: ArrayLike, homophilies: ArrayLike) -> FloatArray:
    """Hop weights that give a graph convolution over several hops its highest accuracy.

    Formula: `gamma_k = d_k (2 h_k - 1)`, so that `gamma_0 = 1`. Any multiple is as good. The
    accuracy reached is `Phi(sqrt(sum_k d_k (2 h_k - 1)^2) * signal)`.

    Reference: the multi-hop lemma of the appendix.

    Args:
        degrees: number of nodes at each distance 0 .. K, > 0; the first is 1.
        homophilies: share of the nodes at each distance with the node's own label, in [0, 1]; the
            first is 1.

    Returns:
        The K + 1 weights, hop 0 first.

    Raises:
        InvalidArgumentError: the lengths differ, hop 0 is not the node itself, or a value is
            outside its range or not finite.

    Example:
        >>> best_gamma_hops(degrees=[1, 4, 12], homophilies=[1, 0.75, 0.25]).tolist()
        [1.0, 2.0, -6.0]
    """
    degrees_, homophilies_ = checked_hops(degrees, homophilies)
    return degrees_ * _label_agreement(homophilies_)


def _label_agreement(homophily: FloatArray) -> FloatArray:
    """Mean of `y_i y_j` over the neighbours, from -1 (all differ) to 1 (all agree)."""
    return 2 * homophily - 1


def _class_mean(gamma: FloatArray, homophily: FloatArray, signal: FloatArray) -> FloatArray:
    """Mean of the representation of the positive class, along `mu` (Proposition 3.1)."""
    return (1 + gamma * _label_agreement(homophily)) * signal


def _noise(gamma: FloatArray, degree: FloatArray) -> FloatArray:
    """Standard deviation of the representation in any direction (Proposition 3.1)."""
    return np.hypot(1, gamma / np.sqrt(degree))


def _float_if_scalar(values: FloatArray) -> FloatOrArray:
    return float(values) if np.ndim(values) == 0 else values
