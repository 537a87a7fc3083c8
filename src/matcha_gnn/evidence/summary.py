"""The source summary: a few statistics of the labelled graph in the model file, no rows of data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from matcha_gnn.class_names import class_title
from matcha_gnn.errors import IncompatibleError
from matcha_gnn.evidence.features import FeatureProfile
from matcha_gnn.evidence.source import SourceEvidence, require_shapes
from matcha_gnn.graphs.memory import Graph
from matcha_gnn.kernels.contexts import plain_torch
from matcha_gnn.network.modules import FINGERPRINT_BYTES
from matcha_gnn.typing import FloatArray, Probs

DEGREE_EDGES = torch.tensor([0, 1, 2, *(2**p for p in range(2, 21)), 2**62])
"""Left edges of the degree bins: 0, 1, 2–3, 4–7, … and everything above a million."""
CONFIDENCE_BINS = 20
FEWEST_HELD_OUT = 5
"""Held-out nodes that every trained class needs for the statistics to be taken on them."""
_EVIDENCE, _FEATURES, _OWN = "evidence.", "features.", "own."
_PLAIN = (
    *("class_prior", "degree_histogram", "mean_degree", "confidence_histogram", "class_edges"),
    *("accuracy", "held_out"),
)
LEAST_CLASS = 0.0075
"""Classes without a labelled source node that a model gives to fewer nodes do no harm."""


@dataclass(frozen=True, repr=False)
class SourceSummary:
    """Statistics of the source graph that travel with the model, or in a file of their own.

    Those of classes are taken on labelled nodes that the model was not trained on, where there are
    at least `FEWEST_HELD_OUT` of every class, because confidence and accuracy are too high on the
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

    def tensors(self) -> dict[str, Tensor]:
        """Every field by name; those of parts behind "evidence.", "features." and "own."."""
        tensors: dict[str, Tensor] = {name: getattr(self, name) for name in _PLAIN}
        if self.network is not None:
            tensors["network"] = self.network
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
        )

    def save(self, path: str | Path) -> None:
        """Write it to a .safetensors file, whole or not at all; see `evidence.summary_files`."""
        from matcha_gnn.evidence.summary_files import FORMAT

        FORMAT.write(path, self.tensors(), {})

    @classmethod
    @plain_torch()
    def load(cls, path: str | Path) -> "SourceSummary":
        """Read a file that `save` wrote.

        Raises:
            InvalidFileError: missing, damaged, of another kind, or with numbers that are not
                finite.
        """
        from matcha_gnn.evidence.summary_files import FORMAT

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

    def fits(self, graph: Graph) -> bool:
        """Whether a graph has as many features."""
        return graph.num_features == self.num_features

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
            f"{self.basis})"
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


def summarise(
    probs: Probs,
    labels: Tensor,
    trained: Tensor,
    held_out: Tensor,
    edge_index: Tensor,
    evidence: SourceEvidence,
    features: FeatureProfile,
) -> SourceSummary:
    """Count on a source graph what its parts do not say.

    Args:
        probs: the network's predictions, [N, C].
        labels: classes, [N]; read at trained and held-out nodes only.
        trained: labelled nodes that the network was trained on, bool [N].
        held_out: labelled nodes that it was not trained on, bool [N].
        edge_index: [2, E].
        evidence: measured on the graph.
        features: its profile.
    """
    num_classes = probs.shape[1]
    measured, enough = measured_on(labels, trained, held_out, num_classes)
    counts = torch.bincount(labels[measured], minlength=num_classes).double()
    degree = torch.bincount(edge_index[1], minlength=len(probs))
    summary = SourceSummary(
        class_prior=(counts / counts.sum()).float(),
        degree_histogram=degree_histogram(degree),
        mean_degree=degree.double().mean().float(),
        confidence_histogram=confidence_histogram(probs[measured] if enough else probs),
        class_edges=class_edge_shares(labels, trained | held_out, edge_index, num_classes),
        accuracy=(probs.argmax(1) == labels)[measured].float().mean(),
        held_out=torch.tensor(int(held_out.sum()) if enough else 0),
        evidence=evidence,
        features=features,
    )
    return SourceSummary.from_tensors({n: tensor.cpu() for n, tensor in summary.tensors().items()})


def measured_on(
    labels: Tensor, trained: Tensor, held_out: Tensor, num_classes: int
) -> tuple[Tensor, bool]:
    """The nodes that statistics of classes are taken on, bool [N], and if they are held out."""
    enough = enough_held_out(labels, trained, held_out, num_classes)
    return (held_out if enough else trained), enough


def _behind(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Tensors whose names start with a prefix, without it."""
    return {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}


def enough_held_out(labels: Tensor, trained: Tensor, held_out: Tensor, num_classes: int) -> bool:
    """Whether every trained class has `FEWEST_HELD_OUT` nodes that were not trained on."""
    known, new = (torch.bincount(labels[m], minlength=num_classes) for m in (trained, held_out))
    return bool((new[known > 0] >= FEWEST_HELD_OUT).all())


def degree_histogram(degree: Tensor) -> Tensor:
    """Share of nodes in each bin of `DEGREE_EDGES`.

    Example:
        >>> degree_histogram(torch.tensor([0, 1, 3, 3]))[:3]
        tensor([0.2500, 0.2500, 0.5000])
    """
    bins = torch.bucketize(degree, DEGREE_EDGES.to(degree.device), right=True) - 1
    return _shares(torch.bincount(bins, minlength=len(DEGREE_EDGES) - 1))


def confidence_histogram(probs: Probs) -> Tensor:
    """Share of nodes by their largest probability, in `CONFIDENCE_BINS` equal bins of [0, 1]."""
    bins = (probs.amax(1) * CONFIDENCE_BINS).long().clamp_max(CONFIDENCE_BINS - 1)
    return _shares(torch.bincount(bins, minlength=CONFIDENCE_BINS))


def class_edge_shares(
    labels: Tensor, labelled: Tensor, edge_index: Tensor, num_classes: int
) -> Tensor:
    """Share of edges from class a to class b among edges between labelled nodes, [C, C]."""
    known = labelled[edge_index].all(0)
    sender, receiver = labels[edge_index[:, known]]
    counts = torch.bincount(sender * num_classes + receiver, minlength=num_classes**2)
    return _shares(counts).view(num_classes, num_classes)


def _shares(counts: Tensor) -> Tensor:
    return (counts.double() / counts.sum().clamp_min(1)).float()
