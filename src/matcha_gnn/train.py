"""Source training with the published recipe, and the source summary of a model."""

import copy
import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from matcha_gnn.backbones import Backbone, TrainableBackbone
from matcha_gnn.backbones.checks import first_non_finite, require_finite, require_precision
from matcha_gnn.errors import IncompatibleError, InvalidArgumentError, InvalidGraphError
from matcha_gnn.evidence.summary import SourceSummary, summarise
from matcha_gnn.graphs.memory import Graph, GraphLike, unlabelled
from matcha_gnn.kernels.devices import seeded
from matcha_gnn.methods import BaseMethod
from matcha_gnn.metrics import accuracy
from matcha_gnn.monitoring.progress import LateBar
from matcha_gnn.typing import Progress

logger = logging.getLogger(__name__)
_NOT_TRAINABLE = (
    "fit cannot train {model.name}, which does not say how to start anew (TrainableBackbone): a "
    "network of your own has to be trained before it is wrapped"
)


@dataclass
class Training:
    """The record of a training run.

    Attributes:
        loss: training loss per epoch.
        val_accuracy: accuracy on the validation nodes per epoch; empty without them.
        best_epoch: the epoch whose weights were kept: the last, unless validation chose another.
        train_accuracy: accuracy on the training nodes at the end.
    """

    loss: list[float] = field(default_factory=list)
    val_accuracy: list[float] = field(default_factory=list)
    best_epoch: int = 0
    train_accuracy: float = 0.0


def fit(
    model: Backbone,
    graph: GraphLike,
    *,
    epochs: int = 500,
    lr: float = 0.01,
    weight_decay: float = 5e-4,
    train_mask: Tensor | None = None,
    val_mask: Tensor | None = None,
    patience: int | None = None,
    methods: Sequence[BaseMethod] = (),
    seed: int = 0,
    progress: Progress | None = None,
) -> Training:
    """Train a model on a labelled source graph, full batch with Adam, in place.

    Starts from fresh parameters drawn from `seed`: the same call gives the same model. The
    defaults are the published recipe: no validation, and the last epoch is kept.

    Args:
        model: trained in place and left in evaluation mode, with `model.source` filled.
        graph: a PyG `Data` with `x` [N, F], `edge_index` [2, E] and `y` [N]. The source summary
            is taken on labelled nodes (y >= 0) outside `train_mask` and `graph.test_mask` where
            there are enough, else on the training nodes; see `model.source.basis`.
        epochs: full-batch steps.
        lr: Adam's step size.
        weight_decay: Adam's, on every parameter that is trained.
        train_mask: nodes to train on, bool [N]; default `graph.train_mask`, else all.
        val_mask: nodes to choose the epoch by; default none: the last epoch is kept.
        patience: stop after this many epochs without a better validation accuracy.
        methods: base methods that need arrays of the source graph (AdaNPC's memory, GraphPatcher's
            weights): these are computed here and stored in `model.source_arrays`.
        seed: random seed of starting values and dropout; torch's global generator is not changed.
        progress: called after each epoch with the epochs done and their number; by default a
            bar on a terminal, for runs longer than a second.

    Returns:
        Losses and accuracies of the run.

    Example:
        >>> import matcha_gnn as mg
        >>> graph = mg.datasets.csbm(num_nodes=200, num_features=8, signal=4.0, seed=0)
        >>> run = mg.fit(mg.GPRGNN(8, 2), graph, epochs=50)
        >>> run.train_accuracy > 0.9
        True
    """
    if not isinstance(model, TrainableBackbone):
        raise IncompatibleError(_NOT_TRAINABLE.format(model=model))
    require_precision(model)
    source = unlabelled(graph)
    x = model.accept(source.x)
    labels, labelled = _labels(graph, source, train_mask, model.head.out_features)
    _check(epochs, lr, weight_decay, patience, val_mask, labels)
    run, kept, progress = Training(), _Best(), progress or LateBar("training")
    logger.info("training %s on %d nodes", model.name, source.num_nodes)
    with seeded(seed, x):
        model.reset_parameters()
        model.requires_grad_(True).gamma.requires_grad_(model.trains_gamma)
        trained = [p for p in model.parameters() if p.requires_grad]
        steps = torch.optim.Adam(trained, lr=lr, weight_decay=weight_decay)
        for epoch in range(epochs):
            run.loss.append(_step(model, source, labels, labelled, steps))
            if not math.isfinite(run.loss[-1]):
                raise _diverged(lr, f"epoch {epoch}")
            if val_mask is not None:
                run.val_accuracy.append(_score(model, source, labels, val_mask))
                kept.offer(run.val_accuracy[-1], epoch, model)
                if patience is not None and epoch - kept.epoch >= patience:
                    break
            progress(epoch + 1, epochs)
    run.best_epoch = kept.restore(model) if val_mask is not None else epochs - 1
    model.eval()
    _require_finite_training(model, lr)
    run.train_accuracy = _score(model, source, labels, labelled)
    logger.info("accuracy %.4f on its training nodes", run.train_accuracy)
    held_out = _held_out(graph, labels, labelled, model.head.out_features)
    model.source = _summary(model, source, labels, labelled, held_out)
    with seeded(seed, x):
        model.source_arrays = {
            m.name: m.source_arrays(model, source, labels, labelled, seed) for m in methods
        }
    require_finite(model)
    return run


def _diverged(lr: float, when: str) -> InvalidArgumentError:
    return InvalidArgumentError("lr", lr, f"a smaller step size: the loss diverged in {when}")


def _require_finite_training(model: Backbone, lr: float) -> None:
    """The loss of an epoch is computed before its step, so the last step may still diverge."""
    if first_non_finite(dict(model.named_parameters())) is not None:
        raise _diverged(lr, "the last epoch")
    _refuse_overflow(first_non_finite(dict(model.named_buffers())))


def _refuse_overflow(name: str | None) -> None:
    if name is not None:
        got = f"features or weights so large that {name} is not finite"
        raise InvalidGraphError("graph.x", got, "smaller features, or a smaller lr")


def _check(
    epochs: int,
    lr: float,
    weight_decay: float,
    patience: int | None,
    val_mask: Tensor | None,
    labels: Tensor,
) -> None:
    if epochs < 0:
        raise InvalidArgumentError("epochs", epochs, "an integer >= 0")
    if not 0 < lr < math.inf:
        raise InvalidArgumentError("lr", lr, "a number > 0")
    if not 0 <= weight_decay < math.inf:
        raise InvalidArgumentError("weight_decay", weight_decay, "a number >= 0")
    if patience is not None and val_mask is None:
        raise InvalidArgumentError("patience", patience, "None without val_mask")
    if val_mask is not None:
        _check_mask("val_mask", val_mask, labels)


def _check_mask(name: str, mask: Tensor, labels: Tensor) -> None:
    if mask.dtype != torch.bool or mask.shape != labels.shape or not mask.any():
        got = f"{mask.dtype} of shape {list(mask.shape)}, {int(mask.sum())} set"
        raise InvalidArgumentError(name, got, "bool, one per node, at least one set")


class _Best:
    """The weights of the best epoch so far."""

    def __init__(self) -> None:
        self.score, self.epoch = -1.0, -1
        self.weights: dict[str, Any] = {}

    def offer(self, score: float, epoch: int, model: Backbone) -> None:
        if score > self.score:
            self.score, self.epoch = score, epoch
            self.weights = copy.deepcopy(model.state_dict())

    def restore(self, model: Backbone) -> int:
        if self.weights:
            model.load_state_dict(self.weights)
        return self.epoch


def _step(
    model: Backbone,
    graph: Graph,
    labels: Tensor,
    labelled: Tensor,
    steps: torch.optim.Optimizer,
) -> float:
    model.train()
    steps.zero_grad()
    logits = model.head(model.representation(graph))
    loss = nn.functional.cross_entropy(logits[labelled], labels[labelled])
    loss.backward()  # type: ignore[no-untyped-call]
    steps.step()
    return float(loss.detach())


@torch.no_grad()
def _score(model: Backbone, graph: Graph, labels: Tensor, mask: Tensor) -> float:
    model.eval()
    return accuracy(model.head(model.representation(graph)), labels, mask)


def _held_out(graph: GraphLike, labels: Tensor, trained: Tensor, num_classes: int) -> Tensor:
    """Labelled nodes that are neither training nor test nodes, bool [N]."""
    held_out = (labels >= 0) & (labels < num_classes) & ~trained
    test = getattr(graph, "test_mask", None)
    if isinstance(test, Tensor) and test.dtype == torch.bool and test.shape == labels.shape:
        held_out &= ~test
    return held_out


@torch.no_grad()
def _summary(
    model: Backbone, graph: Graph, labels: Tensor, trained: Tensor, held_out: Tensor
) -> SourceSummary:
    features = model.node_features(graph)
    logits = model.node_logits(features)
    probs = model.head(model.representation(graph)).softmax(-1)
    found = summarise(features, logits, probs, labels, trained, held_out, graph.edge_index)
    _refuse_overflow(first_non_finite(found.tensors()))
    return found


def summarise_source(
    model: Backbone, graph: GraphLike, trained: Tensor | None = None
) -> SourceSummary:
    """Summarise the labelled graph that a model was trained on, and keep this in `model.source`.

    `fit` does this itself. For networks that were trained elsewhere, `adapt` needs it to estimate
    accuracy; a few statistics are kept, no rows of data. They are taken on labelled nodes that the
    model was not trained on where there are at least five of every class, else on the training
    nodes, where confidence is higher than elsewhere; see `model.source.basis`.

    Args:
        model: a trained model, such as from `wrap` or `add_hops`.
        graph: a PyG `Data` with `x` [N, F], `edge_index` [2, E] and `y` [N]; labels below 0 are
            unknown. Nodes of `graph.test_mask` are left out.
        trained: the nodes that the model was trained on, bool [N]; default `graph.train_mask`,
            else all.

    Returns:
        The source summary, which `model.source` is from now on.

    Example:
        >>> import matcha_gnn as mg
        >>> from torch_geometric.nn import GCN
        >>> graph = mg.datasets.csbm(num_nodes=200, num_features=8, seed=0)
        >>> model = mg.add_hops(GCN(8, 16, num_layers=2, out_channels=2))
        >>> summary = mg.summarise_source(model, graph)
        >>> round(summary.edge_homophily, 1)
        0.8
    """
    require_precision(model)
    require_finite(model)
    source = unlabelled(graph)
    model.accept(source.x)
    probs = model.head(model.representation(source).detach())
    labels, used = _labels(graph, source, trained, probs.shape[1], "trained")
    held_out = _held_out(graph, labels, used, probs.shape[1])
    summary = model.source = _summary(model, source, labels, used, held_out)
    return summary


def _labels(
    graph: GraphLike,
    source: Graph,
    train_mask: Tensor | None,
    num_classes: int,
    name: str = "train_mask",
) -> tuple[Tensor, Tensor]:
    y = getattr(graph, "y", None)
    allowed = f"int64 classes 0 to {num_classes - 1}, one per node"
    if not isinstance(y, Tensor):
        got = "none" if y is None else f"a {type(y).__name__}"
        raise InvalidGraphError("graph.y", got, allowed)
    if y.shape != (source.num_nodes,) or y.is_floating_point():
        raise InvalidGraphError("graph.y", f"{y.dtype} of shape {list(y.shape)}", allowed)
    mask = train_mask if train_mask is not None else getattr(graph, "train_mask", None)
    labelled = torch.ones_like(y, dtype=torch.bool) if mask is None else mask
    _check_mask(name, labelled, y)
    low, high = int(y[labelled].min()), int(y[labelled].max())
    if low < 0 or high >= num_classes:
        raise InvalidGraphError("graph.y", f"classes {low} to {high}", allowed)
    return y.long(), labelled
