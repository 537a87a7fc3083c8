"""How good predictions are and what a labelled graph is like: the only reader of target labels."""

from dataclasses import asdict, dataclass

import torch
from torch import Tensor

from matcha_gnn.errors import InvalidArgumentError


@dataclass(frozen=True)
class Scores:
    """Accuracy, balanced accuracy and macro F1, each in [0, 1]."""

    accuracy: float
    balanced_accuracy: float
    macro_f1: float

    def as_dict(self) -> dict[str, float]:
        """By name."""
        return asdict(self)


def evaluate(predicted: Tensor, labels: Tensor, mask: Tensor | None = None) -> Scores:
    """Compare predicted with true classes.

    Args:
        predicted: classes [N], or probabilities [N, C].
        labels: true classes, [N].
        mask: which nodes count, bool [N]; all by default.

    Returns:
        Balanced accuracy averages recall over the classes that occur in `labels`; macro F1
        averages over the classes that occur in either, as scikit-learn does.

    Example:
        >>> evaluate(torch.tensor([0, 1, 1, 1]), torch.tensor([0, 0, 1, 1])).accuracy
        0.75
    """
    predicted = predicted.argmax(1) if predicted.dim() == 2 else predicted
    if predicted.shape != labels.shape:
        allowed = f"one class for each of {len(predicted)} nodes"
        raise InvalidArgumentError("labels", f"shape {list(labels.shape)}", allowed)
    if mask is not None:
        predicted, labels = predicted[mask], labels[mask]
    if len(labels) and int(labels.min()) < 0:
        raise InvalidArgumentError("labels", f"class {int(labels.min())}", "classes >= 0")
    if not len(labels):
        raise InvalidArgumentError("mask", "no node", "at least one node to score")
    confusion = confusion_matrix(labels, predicted)
    hits, true, guessed = confusion.diagonal(), confusion.sum(1), confusion.sum(0)
    recall = hits / true.clamp_min(1)
    f1 = 2 * hits / (true + guessed).clamp_min(1)
    return Scores(
        accuracy=float(hits.sum() / confusion.sum()),
        balanced_accuracy=float(recall[true > 0].mean()),
        macro_f1=float(f1[true + guessed > 0].mean()),
    )


def accuracy(predicted: Tensor, labels: Tensor, mask: Tensor | None = None) -> float:
    """Share of nodes whose class is predicted right; arguments as in `evaluate`."""
    return evaluate(predicted, labels, mask).accuracy


def confusion_matrix(rows: Tensor, columns: Tensor) -> Tensor:
    """Counts of (row class, column class) in float64, [C, C]."""
    rows, columns = rows.long(), columns.long()
    size = int(max(rows.max(), columns.max())) + 1
    return torch.bincount(rows * size + columns, minlength=size**2).view(size, size).double()


def node_homophily(edge_index: Tensor, labels: Tensor) -> float:
    """Mean over nodes with incoming edges of the share that comes from their own class."""
    sender, receiver = edge_index
    degree = torch.bincount(receiver, minlength=len(labels)).double()
    same = (labels[sender] == labels[receiver]).double()
    alike = torch.zeros_like(degree).index_add_(0, receiver, same)
    return float((alike / degree)[degree > 0].mean())


def edge_homophily(edge_index: Tensor, labels: Tensor) -> float:
    """Share of edges inside a class."""
    sender, receiver = edge_index
    return float((labels[sender] == labels[receiver]).double().mean())


def average_degree(edge_index: Tensor, num_nodes: int) -> float:
    """Incoming edges per node."""
    return edge_index.shape[1] / num_nodes
