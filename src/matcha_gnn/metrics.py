"""Scores of predictions and statistics of labelled graphs; only here are target labels read."""

from dataclasses import asdict, dataclass, replace

import torch
from torch import Tensor

from matcha_gnn.errors import InvalidArgumentError, require_kind

HALF_A_NODE = 0.5
"""Expected nodes from which a class counts as one that occurs."""


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

    Raises:
        InvalidArgumentError: classes or mask of another type or shape, or no node to score.

    Returns:
        Balanced accuracy averages recall over the classes that occur in `labels`; macro F1
        averages over the classes that occur in either, as scikit-learn does.

    Example:
        >>> evaluate(torch.tensor([0, 1, 1, 1]), torch.tensor([0, 0, 1, 1])).accuracy
        0.75
    """
    require_kind("predicted", predicted, Tensor, "a tensor of classes or probabilities")
    predicted = predicted.argmax(1) if predicted.dim() == 2 else predicted
    _check_classes("predicted", predicted)
    _check_classes("labels", labels)
    if predicted.shape != labels.shape:
        allowed = f"one class for each of {len(predicted)} nodes"
        raise InvalidArgumentError("labels", f"shape {list(labels.shape)}", allowed)
    if mask is not None:
        _check_mask(mask, labels)
        predicted, labels = predicted[mask], labels[mask]
    if len(labels) and int(labels.min()) < 0:
        raise InvalidArgumentError("labels", f"class {int(labels.min())}", "classes >= 0")
    if not len(labels):
        raise InvalidArgumentError("mask", "no node", "at least one node to score")
    hits, true, given = _counts(predicted.long(), labels.long())
    return Scores(
        accuracy=float(hits.sum() / true.sum()),
        balanced_accuracy=float(recall(hits, true).nanmean()),
        macro_f1=float(f1(hits, true, given).nanmean()),
    )


def _check_classes(argument: str, classes: Tensor) -> None:
    require_kind(argument, classes, Tensor, "a tensor of classes")
    if classes.is_floating_point() or classes.is_complex():
        raise InvalidArgumentError(argument, classes.dtype, "whole numbers, such as int64")


def _check_mask(mask: Tensor, labels: Tensor) -> None:
    require_kind("mask", mask, Tensor, "a bool tensor")
    if mask.dtype != torch.bool or mask.shape != labels.shape:
        allowed = f"bool of shape {list(labels.shape)}"
        raise InvalidArgumentError("mask", f"{mask.dtype} of shape {list(mask.shape)}", allowed)


def _counts(predicted: Tensor, labels: Tensor) -> list[Tensor]:
    """Hits, true nodes and predicted nodes of each class that occurs in either, float64."""
    classes, codes = torch.unique(torch.cat([labels, predicted]), return_inverse=True)
    true, given = codes.split(len(labels))
    each = (true[true == given], true, given)
    return [torch.bincount(nodes, minlength=len(classes)).double() for nodes in each]


def accuracy(predicted: Tensor, labels: Tensor, mask: Tensor | None = None) -> float:
    """Share of nodes whose class is predicted right; arguments as in `evaluate`."""
    return evaluate(predicted, labels, mask).accuracy


def confusion_matrix(rows: Tensor, columns: Tensor) -> Tensor:
    """Counts of (row class, column class) in float64, [C, C], for classes 0 to C − 1."""
    rows, columns = rows.long(), columns.long()
    size = int(max(rows.max(), columns.max())) + 1
    return torch.bincount(rows * size + columns, minlength=size**2).view(size, size).double()


def recall(hits: Tensor, true: Tensor) -> Tensor:
    """Share of the nodes of each class that is found, [..., C]; NaN for a class that has none.

    Counts may be expected ones: a class of less than half a node has none.

    Args:
        hits: nodes of each class that are given it, [..., C].
        true: nodes of each class, [..., C]. With nodes that are given each class, precision.

    Example:
        >>> recall(torch.tensor([3.0, 0.0]), torch.tensor([4.0, 0.0]))
        tensor([0.7500,    nan])
    """
    return torch.where(true >= HALF_A_NODE, hits / true.clamp_min(HALF_A_NODE), torch.nan)


def f1(hits: Tensor, true: Tensor, given: Tensor) -> Tensor:
    """F1 of each class, 2 hits / (true + given), [..., C]; NaN for a class that does not occur."""
    return recall(2 * hits, true + given)


def average_precision(scores: Tensor, true: Tensor) -> float:
    """Σ (R_k − R_{k−1}) P_k over falling scores, equal scores at once; 0 without a true node.

    Args:
        scores: higher where a node is likelier to be true, [N].
        true: bool [N].

    Example:
        >>> average_precision(torch.tensor([0.9, 0.8, 0.1]), torch.tensor([True, False, True]))
        0.8333333333333333
    """
    order = scores.argsort(descending=True, stable=True)
    ranked, hits = scores[order], true[order].double().cumsum(0)
    last = torch.ones_like(true)
    last[:-1] = ranked[1:] != ranked[:-1]
    places = torch.arange(1, len(scores) + 1, device=scores.device)[last]
    found = hits[last]
    if not len(found) or not found[-1] > 0:
        return 0.0
    gained = found.diff(prepend=found.new_zeros(1)) / found[-1]
    return float((gained * found / places).sum())


@dataclass(frozen=True)
class Scorable:
    """The nodes of a target that can be scored.

    Attributes:
        labels: true classes, int64 [N] on the CPU; 0 where they are unknown.
        mask: which nodes can be scored, bool [N].
        remarks: what was left out and why, one sentence each.
    """

    labels: Tensor
    mask: Tensor
    remarks: tuple[str, ...] = ()

    @property
    def number(self) -> int:
        """How many nodes can be scored."""
        return int(self.mask.sum())


def scorable(labels: object, mask: object, num_nodes: int, num_classes: int) -> Scorable:
    """Find the nodes of a target that can be scored; bad labels give a remark, not an error.

    Args:
        labels: true classes: whole numbers of any type, [N] or [N, 1]; other values, such as −1 or
            NaN, are unknown; None for none.
        mask: the nodes to count: bool, or zeros and ones, [N] or [N, 1]; all nodes count where it
            cannot be used; None for all.
        num_nodes: N.
        num_classes: classes are 0 to C − 1.

    Example:
        >>> found = scorable(torch.tensor([0, -1, 1]), None, 3, 2)
        >>> found.mask.tolist(), found.remarks
        ([True, False, True], ('1 of 3 labels are not classes 0 to 1 and were not scored',))
    """
    none = torch.zeros(num_nodes, dtype=torch.bool)
    nothing = Scorable(none.long(), none)
    if labels is None:
        return nothing
    values, trouble = _one_per_node(labels, num_nodes)
    if values is None:
        return replace(nothing, remarks=(f"labels: {trouble}; nothing was scored",))
    counted, remarks = _counted(mask, num_nodes)
    known = (values >= 0) & (values < num_classes) & (values == values.round())
    unknown = int((counted & ~known).sum())
    if unknown:
        what = f"{unknown:,} of {int(counted.sum()):,} labels"
        remarks += (f"{what} are not classes 0 to {num_classes - 1} and were not scored",)
    return Scorable(torch.where(known, values, 0).long(), counted & known, remarks)


def _counted(mask: object, num_nodes: int) -> tuple[Tensor, tuple[str, ...]]:
    """The nodes of a mask, or all of them and why."""
    every = torch.ones(num_nodes, dtype=torch.bool)
    if mask is None:
        return every, ()
    values, trouble = _one_per_node(mask, num_nodes)
    if values is not None and not bool(((values == 0) | (values == 1)).all()):
        trouble = "not a mask of true and false"
    elif values is not None and not bool(values.any()):
        trouble = "no node"
    if values is None or trouble:
        return every, (f"test_mask: {trouble}; it was ignored, and all nodes count",)
    return values.bool(), ()


def _one_per_node(values: object, num_nodes: int) -> tuple[Tensor | None, str]:
    """Numbers [N] on the CPU, or None and what is wrong with them."""
    if not isinstance(values, Tensor):
        return None, f"a {type(values).__name__} instead of a tensor"
    if values.layout != torch.strided or values.is_complex():
        return None, f"{values.dtype}, {values.layout} instead of whole numbers"
    if values.shape not in ((num_nodes,), (num_nodes, 1)):
        return None, f"shape {list(values.shape)} instead of one for each of {num_nodes:,} nodes"
    wide = torch.float64 if values.is_floating_point() else torch.int64
    return values.detach().reshape(-1).cpu().to(wide), ""


def edge_homophily(edge_index: Tensor, labels: Tensor) -> float:
    """Share of edges inside a class."""
    sender, receiver = edge_index
    return float((labels[sender] == labels[receiver]).double().mean())


def average_degree(edge_index: Tensor, num_nodes: int) -> float:
    """Incoming edges per node."""
    return edge_index.shape[1] / num_nodes
