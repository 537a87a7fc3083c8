"""What a source graph says about evidence: the probe, and how far features and edges are right."""

from collections.abc import Mapping
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from matcha_gnn.evidence.probe import Probe
from matcha_gnn.evidence.shift_kinds import FeatureStatistics
from matcha_gnn.evidence.weighing import EvidenceWeights, PoolWeights

GAUSSIAN_WITHIN = 1.15
"""Class shares and offsets of a target are estimated where Gaussian classes, fitted to the source
without its labels, are apart as far as with them, up to this factor."""


def require_shapes(
    tensors: Mapping[str, Tensor], shapes: str, known: Mapping[str, int] | None = None
) -> None:
    """Raise ValueError for a tensor of another shape.

    Args:
        tensors: in the order of the shapes.
        shapes: with blanks between; a digit is a size, a letter stands for the same size
            everywhere, and _ is the shape of a number.
        known: sizes of some letters.

    Example:
        >>> require_shapes({"a": torch.ones(2), "b": torch.ones(2, 3)}, "C CC")
        Traceback (most recent call last):
        ...
        ValueError: b: shape [2, 3], where [2, 2] is needed
    """
    sizes = dict(known or {})
    for (name, tensor), letters in zip(tensors.items(), shapes.split(), strict=True):
        given, letters = list(tensor.shape), letters.replace("_", "")
        for letter, size in zip(letters, given, strict=False):
            sizes.setdefault(letter, int(letter) if letter.isdecimal() else size)
        needed = [sizes.get(letter, "any") for letter in letters]
        if given != needed:
            raise ValueError(f"{name}: shape {given}, where {needed} is needed")


@dataclass(frozen=True)
class SourceEvidence:
    """Measured on the labelled nodes of the source; travels with the model.

    Attributes:
        probe_weight: of the probe, [F, C].
        probe_bias: [C].
        shares: of the classes among labelled nodes; a class without any has a small one, [C].
        centroids: mean of the centred probe logits per class, by fits without a node, [C, C].
        covariance: of the same within classes, [C, C].
        misfit: how badly Gaussians describe them, see `shift_kinds.misfit`, [3].
        class_distance: distance of Gaussian classes fitted without labels, in units of the true
            one, [].
        residual_correlation: of what logits have beside their class mean, along edges, [].
        edge_shares: share of edges to a receiver of class a from a sender of class b, between
            labelled nodes, [C, C].
        misfit_of_edges: log-likelihood per edge by which a fit of these shares without labels
            exceeds the true ones, [].
        weights: the four numbers of `EvidenceWeights`, [4].
        pool: the two numbers of `PoolWeights`, [2].
        information: share of the entropy of the classes that the pool removes, [].
        parts: accuracy of probe and belief, each by its own estimate and in truth, on parts of
            the source that were left out whole, see `evidence.parts`, [parts, 2, 2].
        part_nodes: labelled nodes of a part, on average, [].
        contradiction: see `trust.contradiction`, on labelled nodes of the source, [].
        simulated: accuracy of network, probe, belief and pool, each by the pool's estimate and in
            truth, on held-out nodes of the source under simulated shifts, [shifts, 4, 2].
        held_out: nodes that the network was not trained on behind the pool, []; 0 for none.
        stand_in: whether the network's labels of a target stood in for the source, [].
    """

    probe_weight: Tensor
    probe_bias: Tensor
    shares: Tensor
    centroids: Tensor
    covariance: Tensor
    misfit: Tensor
    class_distance: Tensor
    residual_correlation: Tensor
    edge_shares: Tensor
    misfit_of_edges: Tensor
    weights: Tensor
    pool: Tensor
    information: Tensor
    parts: Tensor
    part_nodes: Tensor
    contradiction: Tensor
    simulated: Tensor
    held_out: Tensor
    stand_in: Tensor

    @property
    def probe(self) -> Probe:
        """The classifier of raw features."""
        return Probe(self.probe_weight, self.probe_bias)

    @property
    def statistics(self) -> FeatureStatistics:
        """Of the probe's logits, for `shift_kinds`."""
        return FeatureStatistics(self.centroids, self.covariance, self.shares)

    @property
    def evidence_weights(self) -> EvidenceWeights:
        """How much features, neighbours and degrees count."""
        return EvidenceWeights(*self.weights.tolist())

    @property
    def pool_weights(self) -> PoolWeights:
        """How much evidence and network count."""
        return PoolWeights(*self.pool.tolist())

    @property
    def gaussian(self) -> bool:
        """Whether classes are Gaussian enough to estimate shares and offsets of a target."""
        distance = float(self.class_distance)
        return 1 / GAUSSIAN_WITHIN < distance < GAUSSIAN_WITHIN

    @property
    def estimate_error(self) -> float:
        """The largest error of an estimated accuracy under simulated shifts, as a share."""
        if not len(self.simulated):
            return 0.0
        return float((self.simulated[..., 0] - self.simulated[..., 1]).abs().max())

    def tensors(self) -> dict[str, Tensor]:
        """Every field by name."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor]) -> "SourceEvidence":
        """The inverse of `tensors`.

        Raises:
            KeyError, ValueError: a tensor is missing or has another shape.
        """
        found = cls(**{each.name: tensors[each.name] for each in fields(cls)})
        # One letter is one size.
        shapes = "FC C C CC CC 3 _ _ CC _ 4 2 _ P22 _ _ S42 _ _"
        require_shapes(found.tensors(), shapes)
        return found

    def to(self, device: torch.device) -> "SourceEvidence":
        """The same on another device."""
        moved = {name: tensor.to(device) for name, tensor in self.tensors().items()}
        return SourceEvidence.from_tensors(moved)
