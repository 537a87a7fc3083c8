"""The source summary: a few statistics of the labelled graph in the model file, no rows of data."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TypeAlias

import torch
from torch import Tensor

from matcha_gnn.errors import IncompatibleError
from matcha_gnn.evidence.features import FeatureProfile
from matcha_gnn.evidence.goals import class_title
from matcha_gnn.evidence.probe import Probe
from matcha_gnn.evidence.shift_kinds import FeatureStatistics
from matcha_gnn.evidence.weighing import EvidenceWeights, PoolWeights
from matcha_gnn.graphs.memory import GraphLike
from matcha_gnn.io.tensorfiles import TensorFormat, require_shapes
from matcha_gnn.kernels.contexts import plain_torch
from matcha_gnn.network.modules import FINGERPRINT_BYTES
from matcha_gnn.network.network import Network
from matcha_gnn.typing import FloatArray

FORMAT = TensorFormat(
    "source",
    "matcha-gnn source summary 4",
    allowed="a file as mg.summarise_source(net, source).save(path) wrote it",
)
DEGREE_EDGES = torch.tensor([0, 1, 2, *(2**p for p in range(2, 21)), 2**62])
"""Left edges of the degree bins: 0, 1, 2–3, 4–7, … and everything above a million."""
CONFIDENCE_BINS = 20
_EVIDENCE, _FEATURES, _OWN = "evidence.", "features.", "own."
_PLAIN = (
    *("class_prior", "degree_histogram", "mean_degree", "confidence_histogram", "class_edges"),
    *("accuracy", "held_out"),
)
AS_GIVEN = (
    "probabilities were not made again on changed copies of the source, so that estimates are less "
    "sure where edges change"
)
LEAST_CLASS = 0.0075
"""Classes without a labelled source node that a model gives to fewer nodes do no harm."""
GAUSSIAN_WITHIN = 1.15
"""Class shares and offsets of a target are estimated where Gaussian classes, fitted to the source
without its labels, are apart as far as with them, up to this factor."""


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
        return replace(self, **{name: each.to(device) for name, each in self.tensors().items()})


@dataclass(frozen=True, repr=False)
class SourceSummary:
    """Statistics of the source graph that travel with the model, or in a file of their own.

    Those of classes are taken on labelled nodes that the model was not trained on, where there are
    at least five of every class, because confidence and accuracy are too high on the
    training nodes. Otherwise they are taken on the training nodes.

    Attributes:
        class_prior: share of each class, [C].
        degree_histogram: share of nodes per bin of incoming degree, bins `DEGREE_EDGES`, [22].
        mean_degree: average incoming degree, [].
        confidence_histogram: share of nodes per bin of their largest probability, [20].
        class_edges: share of edges from class a to class b, between labelled nodes, [C, C].
        accuracy: of the model on these nodes, [].
        held_out: number of nodes not trained on that the statistics are taken on, []; 0 where
            they are taken on the training nodes.
        evidence: how far features, edges and network are right.
        features: what features of other graphs are compared with.
        network: fingerprint of the network that it is of, see `network.modules`, uint8 [16];
            None where nothing is known of what made the probabilities.
        own: what the network's own room keeps of the source, by name; none for a plain network.
        as_given: probabilities were given as they are, and not made again on changed copies of the
            source: estimates are less sure where edges change.
    """

    class_prior: Tensor
    degree_histogram: Tensor
    mean_degree: Tensor
    confidence_histogram: Tensor
    class_edges: Tensor
    accuracy: Tensor
    held_out: Tensor
    evidence: SourceEvidence
    features: FeatureProfile
    network: Tensor | None = None
    own: Mapping[str, Tensor] = field(default_factory=dict)
    as_given: bool = False

    def tensors(self) -> dict[str, Tensor]:
        """Every field by name; those of parts behind "evidence.", "features." and "own."."""
        tensors: dict[str, Tensor] = {name: getattr(self, name) for name in _PLAIN}
        if self.network is not None:
            tensors["network"] = self.network
        if self.as_given:
            tensors["as_given"] = torch.tensor(True)
        parts = (self.evidence.tensors(), self.features.tensors(), self.own)
        for prefix, part in zip((_EVIDENCE, _FEATURES, _OWN), parts, strict=True):
            tensors |= {prefix + name: tensor for name, tensor in part.items()}
        return tensors

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor]) -> "SourceSummary":
        """The inverse of `tensors`; fields of other versions are ignored.

        Raises:
            KeyError, ValueError: a tensor is missing or has another shape.
        """
        plain = {name: tensors[name] for name in _PLAIN}
        bins = {"B": len(DEGREE_EDGES) - 1, "Q": CONFIDENCE_BINS}
        require_shapes(plain, "C B _ Q CC _ _", bins)
        evidence, features, own = (_behind(p, tensors) for p in (_EVIDENCE, _FEATURES, _OWN))
        network = tensors.get("network")
        if network is not None:
            require_shapes({"network": network}, "L", {"L": FINGERPRINT_BYTES})
        return cls(
            **plain,
            evidence=SourceEvidence.from_tensors(evidence),
            features=FeatureProfile.from_tensors(features),
            network=network,
            own=own,
            as_given="as_given" in tensors,
        )

    def save(self, path: str | Path) -> None:
        """Write it to a .safetensors file with a checksum, whole or not at all; never a pickle."""
        FORMAT.write(path, self.tensors(), {})

    @classmethod
    @plain_torch()
    def load(cls, path: str | Path) -> "SourceSummary":
        """Read a file that `save` wrote.

        Raises:
            InvalidFileError: missing, damaged, of another kind, or with numbers that are not
                finite.
        """
        tensors = FORMAT.read(path).tensors
        try:
            return cls.from_tensors(tensors)
        except KeyError as missing:
            raise FORMAT.refused(path, f"no {missing}") from missing
        except ValueError as error:
            raise FORMAT.refused(path, str(error)) from error

    @property
    def num_features(self) -> int:
        """F of the source graph."""
        return len(self.evidence.probe_weight)

    def require_network(self, network: Network) -> None:
        """Refuse another network than the one that it is of.

        The network may have been adapted since: then the summary that it carries says which one it
        comes from, or what it was wrapped from.

        Raises:
            IncompatibleError: other weights.

        Warns:
            UserWarning: it cannot be told.
        """
        present = network.fingerprint
        if self.network is None or present is None:
            warnings.warn(
                f"source: taken as it is, as it cannot be told whether the summary is of "
                f"{network.title}: one of them has no weights",
                stacklevel=2,
            )
            return
        carried = None if network.source is None else network.source.network
        known = (each for each in (present, carried, network.origin) if each is not None)
        if not any(each.equal(self.network) for each in known):
            raise IncompatibleError(
                "source: the summary is of a network with other weights than this "
                f"{network.name}: make it again for this one, mg.summarise_source(model, "
                "source_graph)"
            )

    def require(self, features: int, classes: int) -> None:
        """Raise IncompatibleError unless it is of graphs and networks of these sizes."""
        if self.num_features != features:
            raise IncompatibleError(
                f"source: the summary is of a graph with {self.num_features} features, "
                f"this one has {features}"
            )
        if len(self.class_prior) != classes:
            raise IncompatibleError(
                f"source: the summary is of {len(self.class_prior)} classes, this model has "
                f"{classes}"
            )

    def without_label(self, counts: FloatArray, names: Sequence[str]) -> str:
        """Why accuracy cannot be estimated where a model gives classes without a labelled node.

        Args:
            counts: of the target's nodes by the class that the model gives them, [C].
            names: of the classes; may be empty.

        Returns:
            A sentence, or nothing where there are none or few of them.
        """
        absent = (self.class_prior == 0).cpu().numpy()
        if not absent.any():
            return ""
        if absent.sum() == len(absent) - 1:
            return (
                "accuracy cannot be estimated: all labelled nodes of the source graph are of one "
                "class"
            )
        shares = counts / counts.sum()
        most = int((shares * absent).argmax())
        if shares[absent].sum() < LEAST_CLASS:
            return ""
        return (
            f"accuracy cannot be estimated: {class_title(names, most)} has no labelled node in the "
            "statistics of the source graph, and the model gives it to "
            f"{shares[most]:.1%} of the target's nodes"
        )

    def __repr__(self) -> str:
        """One line instead of every tensor."""
        return (
            f"SourceSummary({len(self.class_prior)} classes, homophily {self.edge_homophily:.2f}, "
            f"mean degree {float(self.mean_degree):.1f}, accuracy {float(self.accuracy):.1%} on "
            f"{self.basis}{'; ' + AS_GIVEN if self.as_given else ''})"
        )

    @property
    def basis(self) -> str:
        """Which nodes the statistics are taken on, for a reader."""
        number = int(self.held_out)
        return f"{number:,} nodes not trained on" if number else "training nodes"

    @property
    def edge_homophily(self) -> float:
        """Share of edges inside a class."""
        return float(self.class_edges.diagonal().sum())


Source: TypeAlias = SourceSummary | str | Path | GraphLike
"""How a caller gives the source: a summary, the path of one, or the labelled graph itself."""


def _behind(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Tensors whose names start with a prefix, without it."""
    return {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}
