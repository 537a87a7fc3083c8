"""Source training with the published recipe, and the source summary of a model."""

import copy
import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from matcha_gnn.errors import (
    IncompatibleError,
    InvalidArgumentError,
    InvalidGraphError,
    require_kind,
    require_number,
    require_seed,
    require_whole,
)
from matcha_gnn.evidence.summarising import (
    Nodes,
    held_out_nodes,
    known_labels,
    labelled_nodes,
    node_mask,
    refuse_overflow,
    source_summary,
)
from matcha_gnn.evidence.summary import SourceSummary
from matcha_gnn.gamma.methods import Arrays, BaseMethod
from matcha_gnn.gamma.models import Backbone, TrainableBackbone
from matcha_gnn.graphs.memory import Graph, GraphLike, unlabelled
from matcha_gnn.kernels.contexts import plain_torch, seeded
from matcha_gnn.metrics import accuracy
from matcha_gnn.network.modules import first_non_finite
from matcha_gnn.network.network import require_finite, require_precision
from matcha_gnn.progress import LateBar
from matcha_gnn.streams import Purpose, torch_seed, torch_stream
from matcha_gnn.typing import Progress

logger = logging.getLogger(__name__)
REHEARSAL_EPOCHS, REHEARSAL_HOLDOUT = 200, 0.2
"""Of the second training where all labelled nodes were trained on."""
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


@plain_torch()
def fit(
    model: Backbone,
    graph: GraphLike,
    *,
    epochs: int = 500,
    lr: float = 0.01,
    weight_decay: float = 5e-4,
    train_mask: Nodes | None = None,
    val_mask: Tensor | None = None,
    patience: int | None = None,
    holdout: float = 0.1,
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
            there are enough, else see `holdout`; `model.source.basis` says which.
        epochs: full-batch steps.
        lr: Adam's step size.
        weight_decay: Adam's, on every parameter that is trained.
        train_mask: nodes to train on, bool [N] or their indices, as a tensor, array or list;
            default `graph.train_mask`, else all that have a label.
        val_mask: nodes to choose the epoch by; default none: the last epoch is kept.
        patience: stop after this many epochs without a better validation accuracy.
        holdout: share of each class's training nodes that is kept apart for the source summary
            where there are no other labelled nodes. With 0 all are trained on, as in the published
            runs, and a second, shorter training on 80% of them measures what is needed.
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
    require_kind("model", model, Backbone, "a backbone, such as mg.GPRGNN(8, 2)")
    require_seed(seed)
    require_kind("methods", methods, Sequence, "a list of base methods, such as [mg.AdaNPC()]")
    for method in methods:
        require_kind("methods", method, BaseMethod, "base methods, such as mg.AdaNPC()")
    if progress is not None and not callable(progress):
        raise InvalidArgumentError("progress", repr(progress), "a function of done and total")
    if not isinstance(model, TrainableBackbone):
        raise IncompatibleError(_NOT_TRAINABLE.format(model=model))
    require_precision(model)
    if any(parameter.is_inference() for parameter in model.parameters()):
        got = "weights made in torch.inference_mode()"
        raise InvalidArgumentError("model", got, "a model made outside of it, to be trained")
    source = unlabelled(graph)
    if source.num_nodes < 2:
        raise InvalidGraphError("graph.x", "1 node", "at least 2 nodes to train on")
    model.accept(source.x)
    classes = model.head.out_features
    labels, trained = known_labels(graph, source, train_mask, classes)
    recipe = _Recipe(epochs, lr, weight_decay, val_mask, patience, seed)
    if val_mask is not None:
        recipe = replace(recipe, val_mask=node_mask("val_mask", val_mask, labels))
    require_number("holdout", holdout, least=0, below=1)
    held_out = held_out_nodes(graph, labels, trained, classes)
    alone = not held_out.any()
    if alone and holdout:
        # The root stream: published source models came from this split.
        draws = torch.Generator().manual_seed(seed)
        trained, held_out = _apart(labels, trained, holdout, draws)
    logger.info("training %s on %d nodes", model.name, int(trained.sum()))
    run = _train(model, source, labels, trained, recipe, progress or LateBar("training"))
    logger.info("accuracy %.4f on its training nodes", run.train_accuracy)
    labelled = labelled_nodes(graph, labels, classes)
    model.source = source_summary(model, source, labels, trained, held_out, labelled)
    if alone and not holdout:
        model.source = _rehearsed(model, source, labels, trained, recipe)
    model.source_arrays = _arrays(model, source, labels, trained, methods, seed)
    require_finite(model)
    return run


def add_source_arrays(
    model: Backbone,
    graph: GraphLike,
    methods: Sequence[BaseMethod],
    *,
    train_mask: Nodes | None = None,
    seed: int = 0,
) -> None:
    """Add to a trained model what further methods need of the source graph.

    The same as `methods` of `fit` would have added, where it was trained with `holdout=0` on the
    nodes of `train_mask`, by default `graph.train_mask`, else all. The model's weights stay.
    """
    source = unlabelled(graph)
    labels, trained = known_labels(graph, source, train_mask, model.head.out_features)
    model.source_arrays |= _arrays(model, source, labels, trained, methods, seed)
    require_finite(model)


def _arrays(
    model: Backbone,
    source: Graph,
    labels: Tensor,
    trained: Tensor,
    methods: Sequence[BaseMethod],
    seed: int,
) -> dict[str, Arrays]:
    """By method; each draws its own random numbers, whatever others there are."""
    arrays = {}
    for method in methods:
        with seeded(torch_seed(seed, Purpose.SOURCE_ARRAYS), source.x):
            arrays[method.name] = method.source_arrays(model, source, labels, trained, seed)
    return arrays


@dataclass(frozen=True)
class _Recipe:
    epochs: int
    lr: float
    weight_decay: float
    val_mask: Tensor | None
    patience: int | None
    seed: int

    def __post_init__(self) -> None:
        require_whole("epochs", self.epochs, least=0)
        require_number("lr", self.lr, above=0)
        require_number("weight_decay", self.weight_decay, least=0)
        if self.patience is not None:
            require_whole("patience", self.patience, least=1)
            if self.val_mask is None:
                raise InvalidArgumentError("patience", self.patience, "None without val_mask")


def _train(
    model: TrainableBackbone,
    source: Graph,
    labels: Tensor,
    trained: Tensor,
    recipe: _Recipe,
    progress: Progress,
) -> Training:
    """Train from fresh parameters; the model is left in evaluation mode."""
    run, val_mask = Training(best_epoch=-1), recipe.val_mask
    best, best_weights = -1.0, dict[str, Any]()
    with seeded(recipe.seed, source.x):
        model.reset_parameters()
        model.requires_grad_(True).gamma.requires_grad_(model.trains_gamma)
        moving = [p for p in model.parameters() if p.requires_grad]
        steps = torch.optim.Adam(moving, lr=recipe.lr, weight_decay=recipe.weight_decay)
        for epoch in range(recipe.epochs):
            run.loss.append(_step(model, source, labels, trained, steps))
            if not math.isfinite(run.loss[-1]):
                raise _diverged(recipe.lr, f"epoch {epoch}")
            if val_mask is not None:
                run.val_accuracy.append(_score(model, source, labels, val_mask))
                if run.val_accuracy[-1] > best:
                    best, run.best_epoch = run.val_accuracy[-1], epoch
                    best_weights = copy.deepcopy(model.state_dict())
                if recipe.patience is not None and epoch - run.best_epoch >= recipe.patience:
                    break
            progress(epoch + 1, recipe.epochs)
    if val_mask is None:
        run.best_epoch = recipe.epochs - 1
    elif best_weights:
        model.load_state_dict(best_weights)
    model.eval()
    # The loss of an epoch is computed before its step, so the last step may still diverge.
    if first_non_finite(dict(model.named_parameters())) is not None:
        raise _diverged(recipe.lr, "the last epoch")
    refuse_overflow(first_non_finite(dict(model.named_buffers())))
    run.train_accuracy = _score(model, source, labels, trained)
    return run


def _apart(
    labels: Tensor, trained: Tensor, share: float, draws: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Training nodes without a share of each class, and these, bool [N] each.

    A class keeps at least one training node; of a class with two or more at least one is kept
    apart.
    """
    order = torch.randperm(len(labels), generator=draws).to(labels.device)
    held_out = torch.zeros_like(trained)
    for each in torch.unique(labels[trained]):
        own = order[(trained & (labels == each))[order]]
        number = min(max(1, round(share * len(own))), len(own) - 1)
        held_out[own[:number]] = True
    return trained & ~held_out, held_out


def _rehearsed(
    model: TrainableBackbone, source: Graph, labels: Tensor, trained: Tensor, recipe: _Recipe
) -> SourceSummary:
    """The summary with evidence and accuracy of a second, shorter training on other nodes."""
    assert model.source is not None
    draws = torch_stream(recipe.seed, Purpose.REHEARSAL)
    fewer, held_out = _apart(labels, trained, REHEARSAL_HOLDOUT, draws)
    second = copy.deepcopy(model)
    epochs = min(recipe.epochs, REHEARSAL_EPOCHS)
    short = replace(recipe, epochs=epochs, val_mask=None, patience=None)
    _train(second, source, labels, fewer, short, LateBar("measuring"))
    measured = source_summary(second, source, labels, fewer, held_out, trained)
    summary: SourceSummary = model.source
    return replace(summary, evidence=measured.evidence, accuracy=measured.accuracy)


def _diverged(lr: float, when: str) -> InvalidArgumentError:
    return InvalidArgumentError("lr", lr, f"a smaller step size: the loss diverged in {when}")


def _step(
    model: Backbone, graph: Graph, labels: Tensor, labelled: Tensor, steps: torch.optim.Optimizer
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
