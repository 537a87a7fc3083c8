"""The source summary of a trained model: which labels are known, and what is measured on them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from matcha_gnn.errors import (
    IncompatibleError,
    InvalidArgumentError,
    InvalidGraphError,
    require_one_graph,
)
from matcha_gnn.evidence.features import FeatureProfile, profile
from matcha_gnn.evidence.measuring import Known, measure_evidence
from matcha_gnn.evidence.summary import (
    CONFIDENCE_BINS,
    DEGREE_EDGES,
    SourceEvidence,
    SourceSummary,
)
from matcha_gnn.graphs.memory import Graph, GraphLike, unlabelled
from matcha_gnn.kernels.contexts import plain_torch
from matcha_gnn.network.batches import Loader
from matcha_gnn.network.modules import first_non_finite
from matcha_gnn.network.network import (
    Network,
    as_network,
    evaluating,
    require_finite,
    require_precision,
)
from matcha_gnn.typing import Probs

FEWEST_HELD_OUT = 5
"""Held-out nodes that every trained class needs for the statistics to be taken on them."""
Nodes: TypeAlias = Tensor | NDArray[Any] | Sequence[int]
"""Some of the nodes: a mask [N], or their indices."""
NO_REGRESSION = "regression is not supported, and classes that are kept as floats go in as y.long()"


def labelled_nodes(graph: GraphLike, labels: Tensor, classes: int) -> Tensor:
    """Nodes with a class that are no test nodes, bool [N]."""
    labelled = (labels >= 0) & (labels < classes)
    test = getattr(graph, "test_mask", None)
    if test is None:
        return labelled
    nodes = _as_tensor("graph.test_mask", test, len(labels))
    none = not len(nodes) or (nodes.dtype == torch.bool and not bool(nodes.any()))
    return labelled if none else labelled & ~node_mask("graph.test_mask", nodes, labels)


def held_out_nodes(graph: GraphLike, labels: Tensor, trained: Tensor, classes: int) -> Tensor:
    """Labelled nodes that are neither training nor test nodes, bool [N]; none if too few."""
    held_out = labelled_nodes(graph, labels, classes) & ~trained
    enough = enough_held_out(labels, trained, held_out, classes)
    return held_out if enough else torch.zeros_like(held_out)


@torch.no_grad()
def source_summary(
    network: Network,
    graph: Graph,
    labels: Tensor,
    trained: Tensor,
    held_out: Tensor,
    labelled: Tensor,
    logits: Tensor | None = None,
) -> SourceSummary:
    """Measure a source graph with the network that was trained on it.

    Args:
        network: trained.
        graph: the source.
        labels: classes, [N]; read at the nodes below only.
        trained: nodes that the network was trained on, bool [N].
        held_out: labelled nodes that it was not trained on, bool [N]; may be none.
        labelled: all nodes whose class is known, bool [N]: features need no held-out nodes.
        logits: of the network on the graph, [N, C], where they are at hand.
    """
    with evaluating(network):
        logits = network.logits(graph) if logits is None else logits
        probs, classes = logits.softmax(-1), logits.shape[1]
        own = network.statistics(graph, labels, trained, held_out, classes)
        known = Known(labels, trained | held_out, held_out)
        evidence = measure_evidence(network, graph, known, logits)
    features = profile(graph, labels, labelled | trained)
    parts = evidence.to(torch.device("cpu")), features
    summary = summarise(probs, labels, trained, held_out, graph.edge_index, *parts)
    summary = replace(summary, network=network.fingerprint, own=own, as_given=not network.reruns)
    refuse_overflow(first_non_finite(summary.tensors()))
    return summary


def refuse_overflow(name: str | None) -> None:
    """Raise InvalidGraphError where something made from features and weights is not finite."""
    if name is not None:
        got = f"features or weights so large that {name} is not finite"
        raise InvalidGraphError("graph.x", got, "smaller features, or a smaller lr")


@plain_torch()
def summarise_source(
    model: Any,
    graph: GraphLike,
    trained: Nodes | None = None,
    *,
    loader: Loader | None = None,
    logits: bool = False,
) -> SourceSummary:
    """Summarise the labelled graph that a model was trained on.

    `fit` does this itself. For networks that were trained elsewhere, `adapt` needs it to estimate
    accuracy; a few statistics are kept, no rows of data. They are taken on labelled nodes that the
    model was not trained on where there are at least five of every class, else on the training
    nodes, where confidence is higher than elsewhere; see `SourceSummary.basis`.

    Args:
        model: a trained network, its class probabilities [N, C] on this graph, or a function that
            makes them of a `Data`. Given probabilities cannot be made again on changed copies of
            the source, so that weights are learned on the source as it is: see `adapt`.
        graph: a PyG `Data` with `x` [N, F], `edge_index` [2, E] and `y` [N] or [N, 1]; labels
            below 0 are unknown. Nodes of `graph.test_mask` are left out.
        trained: the nodes that the model was trained on, bool [N] or their indices, as a tensor,
            array or list; default `graph.train_mask`, else all that have a label.
        loader: through which a network runs; see `adapt`. The network also runs on the graph with
            other edges: in one batch, unless the loader is a function that makes one of a `Data`.
        logits: given numbers are logits, not probabilities.

    Returns:
        The source summary: to save, and to give to `adapt`. Models of this package keep it in
        `model.source`, too; another network stays as it is. It names the network by a hash of its
        weights, and is refused for another one.

    Raises:
        InvalidGraphError, InvalidArgumentError: bad input.
        IncompatibleError: most labelled nodes get classes that none of them has: the network is
            not trained on them, or returns an embedding.

    Example:
        >>> import matcha_gnn as mg
        >>> from torch_geometric.nn import GCN
        >>> graph = mg.datasets.csbm(num_nodes=200, num_features=8, seed=0)
        >>> net = GCN(8, 16, num_layers=2, out_channels=2)
        >>> summary = mg.summarise_source(net, graph)
        >>> round(summary.edge_homophily, 1)
        0.8
    """
    require_one_graph(graph)
    network = as_network(model, graph, loader, logits=logits)
    summary = summarised(network, graph, trained)
    if isinstance(model, Network):
        model.source = summary
    return summary


def summarised(network: Network, graph: GraphLike, trained: Nodes | None = None) -> SourceSummary:
    """The summary of a network that is a private copy; see `summarise_source`."""
    require_precision(network)
    require_finite(network)
    source = unlabelled(graph)
    network.accept(source.x)
    network.expect(_num_classes(graph))
    with torch.no_grad(), evaluating(network):
        logits = network.logits(source)
    classes = logits.shape[1]
    labels, used = known_labels(graph, source, trained, classes, "trained")
    _require_classes(network, logits, labels)
    held_out = held_out_nodes(graph, labels, used, classes)
    labelled = labelled_nodes(graph, labels, classes)
    return source_summary(network, source, labels, used, held_out, labelled, logits)


def _num_classes(graph: GraphLike) -> int | None:
    """One more than the largest class of `y`; None where there are no classes."""
    y = getattr(graph, "y", None)
    if not isinstance(y, Tensor) or y.is_floating_point() or not y.numel() or int(y.max()) < 0:
        return None
    return int(y.max()) + 1


def _require_classes(network: Network, logits: Tensor, labels: Tensor) -> None:
    """Refuse outputs that most labelled nodes have beyond all classes.

    A network may have outputs for classes that no node here has. One that was trained gives them
    to few nodes with a label, and an embedding to most.
    """
    known = labels >= 0
    most = int(labels.max())
    beyond = (logits.argmax(1)[known] > most).double().mean()
    if beyond > 0.5:
        raise IncompatibleError(
            f"{network.name} has {logits.shape[1]} outputs, y has classes 0 to {most}, and most "
            "nodes get others: did the network return an embedding first?"
        )


def known_labels(
    graph: GraphLike,
    source: Graph,
    train_mask: Nodes | None,
    num_classes: int,
    name: str = "train_mask",
) -> tuple[Tensor, Tensor]:
    """Classes [N] and the nodes to use, bool [N]; labels there must be classes."""
    y = getattr(graph, "y", None)
    allowed = f"int64 classes 0 to {num_classes - 1}, one per node"
    if isinstance(y, Tensor) and y.is_floating_point():
        allowed = f"{allowed}; {NO_REGRESSION}"
    if not isinstance(y, Tensor):
        got = "none" if y is None else f"a {type(y).__name__}"
        raise InvalidGraphError("graph.y", got, allowed)
    if y.shape == (source.num_nodes, 1):
        y = y[:, 0]
    if y.shape != (source.num_nodes,) or y.is_floating_point():
        raise InvalidGraphError("graph.y", f"{y.dtype} of shape {list(y.shape)}", allowed)
    y = y.long()
    mask = train_mask
    if mask is None:
        mask, name = getattr(graph, "train_mask", None), "graph.train_mask"
    labelled = y >= 0 if mask is None else node_mask(name, mask, y)
    if not labelled.any():
        raise InvalidGraphError("graph.y", f"classes {int(y.min())} to {int(y.max())}", allowed)
    low, high = int(y[labelled].min()), int(y[labelled].max())
    if low < 0 or high >= num_classes:
        where = "" if mask is None else f" at the nodes of {name}"
        raise InvalidGraphError("graph.y", f"classes {low} to {high}{where}", allowed)
    return y, labelled


def _require_one_split(name: str, mask: object, num_nodes: int) -> None:
    """Refuse the masks of several splits, [N, splits]."""
    if isinstance(mask, Tensor) and mask.dim() == 2 and len(mask) == num_nodes:
        got = f"{mask.dtype} of shape {list(mask.shape)}"
        raise InvalidArgumentError(name, got, f"one split; take a column: {name}[:, 0]")


def node_mask(name: str, nodes: Nodes, labels: Tensor) -> Tensor:
    """Nodes as a mask [N]; they are given as one, or as indices. At least one must be given.

    Example:
        >>> node_mask("trained", [2, 0], torch.zeros(3))
        tensor([ True, False,  True])
    """
    allowed = f"bool [{len(labels)}] with at least one set, or indices, each node once"
    nodes = _as_tensor(name, nodes, len(labels)).to(labels.device)
    _require_one_split(name, nodes, len(labels))
    if nodes.dtype == torch.int32:
        nodes = nodes.long()
    if nodes.dtype == torch.bool:
        if nodes.shape != labels.shape or not nodes.any():
            got = f"bool of shape {list(nodes.shape)}, {int(nodes.sum())} set"
            raise InvalidArgumentError(name, got, allowed)
        return nodes
    if nodes.dtype != torch.int64 or nodes.dim() != 1 or not len(nodes):
        raise InvalidArgumentError(name, f"{nodes.dtype} of shape {list(nodes.shape)}", allowed)
    low, high, different = int(nodes.min()), int(nodes.max()), len(set(nodes.tolist()))
    if low < 0 or high >= len(labels) or different < len(nodes):
        got = f"{len(nodes)} indices, {different} different, from {low} to {high}"
        raise InvalidArgumentError(name, got, allowed)
    mask = torch.zeros_like(labels, dtype=torch.bool)
    mask[nodes] = True
    return mask


def _as_tensor(name: str, nodes: object, number: int) -> Tensor:
    """A mask or indices of so many nodes: a tensor, or a list or an array as one."""
    if isinstance(nodes, Tensor):
        return nodes
    try:
        if not isinstance(nodes, Sequence | np.ndarray):
            raise TypeError("neither")
        return torch.from_numpy(np.array(nodes))
    except (TypeError, ValueError) as error:
        allowed = f"bool [{number}], or indices of nodes, as a tensor, an array or a list"
        raise InvalidArgumentError(name, f"a {type(nodes).__name__}", allowed) from error


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
