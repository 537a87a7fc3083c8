"""Run a strategy around a model: check what was given, then seek."""

import logging
from dataclasses import replace
from time import perf_counter
from typing import Any

import torch

from matcha_gnn.api import checked
from matcha_gnn.errors import InvalidArgumentError, require_kind
from matcha_gnn.evidence.summary import Source
from matcha_gnn.gamma.hops import Hops
from matcha_gnn.gamma.methods import ERM, METHODS, BaseMethod
from matcha_gnn.gamma.models import Backbone
from matcha_gnn.gamma.networks import as_backbone
from matcha_gnn.gamma.result import MatchaResult
from matcha_gnn.gamma.strategies import STRATEGIES, Matcha, Strategy, Task, Unadapted
from matcha_gnn.gamma.timing import Stopwatch
from matcha_gnn.graphs.memory import Graph, GraphLike
from matcha_gnn.kernels.contexts import plain_torch
from matcha_gnn.network.batches import Loader
from matcha_gnn.progress import LateBar
from matcha_gnn.registry import METHOD_GROUP, STRATEGY_GROUP, resolve_installed
from matcha_gnn.typing import Progress

logger = logging.getLogger(__name__)


def predict(
    model: Any,
    graph: GraphLike,
    method: BaseMethod | str | None = None,
    *,
    loader: Loader | None = None,
    hops: Hops | None = None,
    seed: int = 0,
) -> MatchaResult:
    """What a base method predicts around a model as it is.

    Args:
        model: a trained backbone, or any PyG network; it is not changed.
        graph: a PyG `Data`; labels are not read.
        method: the base method, or its name, such as "t3a"; the model alone by default.
        loader: through which a network runs; see `mg.adapt`.
        hops: `model.hops(graph)` from an earlier call, checked against both; else made here.
        seed: for base methods that draw at random.

    Example:
        >>> import matcha_gnn as mg
        >>> graph = mg.datasets.csbm(num_nodes=100, num_features=8, seed=0)
        >>> predict(mg.GPRGNN(8, 2), graph).status
        <Status.UNADAPTED: 'unadapted'>
    """
    return run(model, graph, method, Unadapted(), loader=loader, hops=hops, seed=seed)


@plain_torch()
def run(
    model: Any,
    graph: GraphLike,
    method: BaseMethod | str | None = None,
    strategy: Strategy | str | None = None,
    *,
    source: Source | None = None,
    loader: Loader | None = None,
    hops: Hops | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> MatchaResult:
    """Run a strategy around a base method, each an object or a name.

    `mg.adapt(model, graph, strategy=mg.Matcha(mg.T3A(), seed=3))` is the same as
    `run(model, graph, "t3a", "matcha", seed=3)`; studies also pass hops and progress.

    Args:
        model: a trained backbone, or any PyG network; it is not changed.
        graph: a PyG `Data`; labels are not read.
        method: the base method; the model alone by default.
        strategy: what seeks a better model; Algorithm 1 by default.
        source: of the model, where it does not carry it; see `mg.adapt`.
        loader: through which a network runs; see `mg.adapt`.
        hops: `model.hops(graph)` from an earlier call, checked against both; else made here.
        seed: for base methods that draw at random.
        progress: called with the rounds done and their number, in place of the default bar.
    """
    seeking = composed(method, strategy, seed)
    network, target = checked(model, graph, source, loader)
    return carried_out(seeking, as_backbone(network), target, hops=hops, progress=progress)


def composed(
    method: BaseMethod | str | None, strategy: Strategy | str | None, seed: int
) -> Strategy:
    """A strategy around a base method, each by name or as it is."""
    if isinstance(method, str):
        method = resolve_installed("method", method, METHODS, METHOD_GROUP)()
    if isinstance(strategy, str):
        strategy = resolve_installed("strategy", strategy, STRATEGIES, STRATEGY_GROUP)()
    strategy = Matcha() if strategy is None else strategy
    method = ERM() if method is None else method
    require_kind("method", method, BaseMethod, "a BaseMethod, such as mg.T3A()")
    require_kind("strategy", strategy, Strategy, "a Strategy, such as mg.Matcha()")
    return replace(strategy, method=method, seed=seed)


@plain_torch()
def carried_out(
    strategy: Strategy,
    model: Backbone,
    graph: Graph,
    *,
    hops: Hops | None = None,
    progress: Progress | None = None,
    class_names: tuple[str, ...] = (),
) -> MatchaResult:
    """Run a strategy on a model that is a private copy."""
    start = perf_counter()
    if hops is not None:
        require_kind("hops", hops, Hops, "None, or hops that model.hops(graph) made")
        hops.require(model.hops_key(graph))
    if progress is not None and not callable(progress):
        raise InvalidArgumentError("progress", f"a {type(progress).__name__}", "a function")
    strategy.method.require(model)
    strategy.require(model)
    watch = Stopwatch(model.gamma.device)
    watch.seconds["checks"] = watch.read() - start
    logger.info("%s on %d nodes", strategy, graph.num_nodes)
    shown = progress or LateBar("adapting")
    task = Task(model, graph, strategy.method, strategy.seed, hops, shown, class_names)
    with torch.enable_grad():
        result = strategy.seek(task)
    watch.add(dict(result.seconds))
    watch.seconds["other"] = watch.read() - start - sum(watch.seconds.values())
    logger.info("%r in %.2f s", result, sum(watch.seconds.values()))
    return replace(result, seconds=watch.seconds)
