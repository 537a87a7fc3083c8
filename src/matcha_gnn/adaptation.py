"""The entry points: check what was given, then adapt or predict."""

import logging
import warnings
from collections.abc import Sequence
from time import perf_counter

import torch
from torch import nn

from matcha_gnn.class_names import checked_names
from matcha_gnn.errors import (
    InvalidArgumentError,
    NotAdaptedWarning,
    require_kind,
    require_one_graph,
    require_seed,
)
from matcha_gnn.evidence import Metric, Wanted
from matcha_gnn.evidence.given import Source, with_source
from matcha_gnn.gamma.hops import Hops
from matcha_gnn.gamma.methods import ERM, METHODS, BaseMethod
from matcha_gnn.gamma.models import Backbone, Loader, as_backbone
from matcha_gnn.gamma.strategies import STRATEGIES, Guarded, Strategy, Task, Unadapted
from matcha_gnn.graphs.memory import Graph, GraphLike, unlabelled
from matcha_gnn.kernels.contexts import plain_torch
from matcha_gnn.monitoring.progress import LateBar
from matcha_gnn.monitoring.timing import Stopwatch
from matcha_gnn.network.checks import require_finite, require_precision
from matcha_gnn.registry import METHOD_GROUP, STRATEGY_GROUP, resolve_installed
from matcha_gnn.result import Adaptation
from matcha_gnn.typing import Progress

logger = logging.getLogger(__name__)


def adapt(
    model: Backbone | nn.Module,
    graph: GraphLike,
    method: BaseMethod | str = ERM(),  # noqa: B008 (immutable)
    strategy: Strategy | str = Guarded(),  # noqa: B008 (immutable)
    *,
    source: Source | None = None,
    metric: str | Metric = "accuracy",
    positive: int | str | None = None,
    classes: Sequence[str] | None = None,
    loader: Loader | None = None,
    hops: Hops | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Adaptation:
    """Adapt a trained model to an unlabelled graph whose structure differs from the source's.

    By default several candidates are compared by their expected accuracy, and the source model is
    kept unless another is expected to be better; nothing needs tuning. `strategy=Matcha()` is the
    published algorithm: a fixed number of steps down a loss, the last one kept.

    Args:
        model: a trained backbone, or any PyG network as it is; it is not changed. A network is
            called with the fields of the graph that its `forward` names. Hop weights of its own,
            where it has some, added hops and answers by evidence are then all tried.
        graph: a PyG `Data`, or anything with `x` [N, F] and `edge_index` [2, E]; labels are not
            read and nothing is changed.
        method: the base method that predicts around each model, or its name, such as "t3a".
        strategy: how a better model is sought, or its name, such as "matcha".
        source: of the model, where it does not carry it: what `summarise_source` returned, the
            path that it was saved to, or the labelled graph itself.
        metric: what is to be high: "accuracy", "balanced_accuracy", "macro_f1", "f1",
            "average_precision", or a function of true classes [n] and a candidate's class
            probabilities [n, C]. It is estimated without labels, and candidates are compared by it.
        positive: the class that "f1" and "average_precision" are of, by number or name; by default
            the rarer of two classes on the source.
        classes: names of the classes, [C], for sentences and pages; by default the graph's
            `class_names`, or else numbers.
        loader: through which a network of PyG's runs: batches of `graph` with `batch_size` and
            `n_id`, such as a `NeighborLoader` over all nodes, or a function that makes them of a
            `Data`. Graphs that such batches do not sample run in one batch.
        hops: `model.hops(graph)` from an earlier call, checked against both; else made here.
        seed: for base methods that draw at random.
        progress: called with the rounds done and their number, in place of the default bar.

    Returns:
        Predictions, the adapted copy, trace, status and timings.

    Raises:
        InvalidArgumentError, InvalidGraphError: bad input, before any work.
        IncompatibleError: the model lacks what the method or the strategy needs.

    Warns:
        NotAdaptedWarning: the model is returned as it is, because accuracy cannot be estimated.

    Example:
        >>> import matcha_gnn as mg
        >>> source = mg.datasets.csbm(1000, 64, homophily=0.9, signal=2, seed=0)
        >>> target = mg.datasets.csbm(1000, 64, homophily=0.1, signal=2, seed=1)
        >>> model = mg.GPRGNN(64, 2)
        >>> _ = mg.fit(model, source, epochs=50)
        >>> mg.adapt(model, target).status
        <Status.ADAPTED: 'adapted'>
    """
    result = run_adaptation(
        model,
        graph,
        method,
        strategy,
        source=source,
        wanted=wanted_by(metric, positive, classes, graph),
        loader=loader,
        hops=hops,
        seed=seed,
        progress=progress,
    )
    if result.decision is not None and result.decision.obstacle:
        warnings.warn(f"not adapted: {result.decision.obstacle}", NotAdaptedWarning, stacklevel=2)
    return result


@plain_torch()
def predict(
    model: Backbone | nn.Module,
    graph: GraphLike,
    method: BaseMethod | str = ERM(),  # noqa: B008 (immutable)
    *,
    loader: Loader | None = None,
    hops: Hops | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Adaptation:
    """What the base method predicts around the model as it is; arguments as in `adapt`.

    Example:
        >>> import matcha_gnn as mg
        >>> graph = mg.datasets.csbm(num_nodes=100, num_features=8, seed=0)
        >>> predict(mg.GPRGNN(8, 2), graph).status
        <Status.UNADAPTED: 'unadapted'>
    """
    return run_adaptation(
        model,
        graph,
        method,
        Unadapted(),
        loader=loader,
        hops=hops,
        seed=seed,
        progress=progress,
    )


@plain_torch()
def run_adaptation(
    model: Backbone | nn.Module,
    graph: Graph | GraphLike,
    method: BaseMethod | str,
    strategy: Strategy | str,
    *,
    source: Source | None = None,
    wanted: Wanted = Wanted(),  # noqa: B008 (immutable)
    loader: Loader | None = None,
    hops: Hops | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Adaptation:
    """`adapt` without its warning, for callers that say themselves what was not possible."""
    start = perf_counter()
    method, strategy = checked_arguments(method, strategy, seed)
    if hops is not None:
        require_kind("hops", hops, Hops, "None, or hops that model.hops(graph) made")
    if progress is not None and not callable(progress):
        raise InvalidArgumentError("progress", f"a {type(progress).__name__}", "a function")
    running = _running(model, graph, source, loader)
    require_precision(running)
    require_finite(running)
    method.require(running)
    strategy.require(running, method)
    strategy.require_metric(wanted)
    _check_classes(wanted, running)

    watch = Stopwatch(running.gamma.device)
    target = unlabelled(graph)
    watch.seconds["checks"] = watch.read() - start
    running.accept(target.x)
    if hops is not None:
        hops.require(running.hops_key(target))
    logger.info("adapting to %d nodes by %s", target.num_nodes, strategy)
    shown = progress or LateBar("adapting")
    result = strategy.run(Task(running, target, method, seed, hops, shown, wanted))
    watch.add(result.seconds)
    watch.seconds["other"] = watch.read() - start - sum(watch.seconds.values())
    result.seconds.clear()
    result.seconds.update(watch.seconds)
    logger.info("%r in %.2f s", result, sum(result.seconds.values()))
    return result


def _running(
    model: Backbone | nn.Module, graph: object, source: Source | None, loader: Loader | None
) -> Backbone:
    """The model as a backbone, with its source summary and its loader where they are given."""
    require_one_graph(graph)
    running = as_backbone(model, graph, loader)
    return running if source is None else with_source(running, source)


def wanted_by(
    metric: str | Metric,
    positive: int | str | None,
    classes: Sequence[str] | None,
    graph: object,
) -> Wanted:
    """What a caller wants to be high; names of the classes are also taken from the graph."""
    given = getattr(graph, "class_names", None) if classes is None else classes
    return Wanted(metric, positive, checked_names(given))


def _check_classes(wanted: Wanted, model: Backbone) -> None:
    """Refuse names and a positive class that do not fit, where classes are known before a run."""
    summary = model.source
    number = len(summary.class_prior) if summary else getattr(model.head, "out_features", 0)
    if number:
        # Without a summary the shares are those of its stand-in, which are not known yet.
        wanted.goal(number, summary.class_prior if summary else torch.ones(number))


def checked_arguments(
    method: BaseMethod | str, strategy: Strategy | str, seed: int
) -> tuple[BaseMethod, Strategy]:
    """Base method and strategy, by name or as they are; common slips say what to do."""
    if isinstance(method, str):
        method = resolve_installed("method", method, METHODS, METHOD_GROUP)()
    if isinstance(strategy, str):
        strategy = resolve_installed("strategy", strategy, STRATEGIES, STRATEGY_GROUP)()
    require_kind("method", method, BaseMethod, "a BaseMethod, such as mg.T3A()")
    require_kind("strategy", strategy, Strategy, "a Strategy, such as mg.Matcha()")
    require_seed(seed)
    return method, strategy
