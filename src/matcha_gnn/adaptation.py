"""The entry points: check what was given, then adapt or predict."""

import logging
from collections.abc import Callable, Sequence

from matcha_gnn.backbones import Backbone
from matcha_gnn.backbones.checks import require_finite, require_precision
from matcha_gnn.callbacks import Callback, progress_of
from matcha_gnn.errors import require_kind, require_whole
from matcha_gnn.graphs.base import BaseGraph, PlannedGraph
from matcha_gnn.graphs.memory import Graph, GraphLike, unlabelled
from matcha_gnn.hops import Hops
from matcha_gnn.kernels.devices import device_of
from matcha_gnn.methods import ERM, BaseMethod
from matcha_gnn.result import Adaptation
from matcha_gnn.strategies import Guarded, Strategy, Task, Unadapted

logger = logging.getLogger(__name__)

LARGEST_SEED = 2**63 - 1


def adapt(
    model: Backbone,
    graph: Graph | GraphLike | PlannedGraph,
    method: BaseMethod = ERM(),  # noqa: B008 (immutable)
    strategy: Strategy = Guarded(),  # noqa: B008 (immutable)
    *,
    hops: Hops | None = None,
    seed: int = 0,
    callbacks: Sequence[Callback] = (),
) -> Adaptation:
    """Adapt a trained model to an unlabelled graph whose structure differs from the source's.

    By default several candidates are compared by their expected accuracy, and the source model is
    kept unless another is expected to be better; nothing needs tuning. `strategy=Matcha()` is the
    published algorithm: a fixed number of steps down a loss, the last one kept.

    Args:
        model: a trained backbone; it is not changed.
        graph: a PyG `Data`, or anything with `x` [N, F] and `edge_index` [2, E]; labels are not
            read and nothing is changed. A `GraphStore` is streamed from its folder;
            `mg.distributed.shard(graph)` is shared by the processes of a cluster.
        method: the base method that predicts around each model.
        strategy: how a better model is sought.
        hops: `model.hops(graph)` from an earlier call, checked against both; else made here.
        seed: for base methods that draw at random.
        callbacks: called with the recorded rounds and at the end; `mg.callbacks` has some.

    Returns:
        Predictions, the adapted copy, trace, status and timings.

    Raises:
        InvalidArgumentError, InvalidGraphError: bad input, before any work.
        IncompatibleError: the model lacks what the method or the strategy needs.

    Example:
        >>> import matcha_gnn as mg
        >>> source = mg.datasets.csbm(1000, 64, homophily=0.9, signal=2, seed=0)
        >>> target = mg.datasets.csbm(1000, 64, homophily=0.1, signal=2, seed=1)
        >>> model = mg.GPRGNN(64, 2)
        >>> _ = mg.fit(model, source, epochs=50)
        >>> mg.adapt(model, target).status
        <Status.ADAPTED: 'adapted'>
    """
    check_arguments(model, method, strategy, seed, callbacks)

    def work(target: BaseGraph, quiet: bool) -> Adaptation:
        _, block = next(target.blocks())
        model.accept(block.x)
        if hops is not None:
            hops.require(model.hops_key(target))
        logger.info("adapting to %d nodes by %s", target.num_nodes, strategy)
        progress = progress_of(callbacks, quiet)
        return strategy.run(Task(model, target, method, seed, hops, progress))

    result = _on_graph(graph, model, method, strategy, seed, work)
    logger.info("%r in %.2f s", result, sum(result.seconds.values()))
    for callback in callbacks:
        callback.on_result(result)
    return result


def predict(
    model: Backbone,
    graph: Graph | GraphLike | PlannedGraph,
    method: BaseMethod = ERM(),  # noqa: B008 (immutable)
    *,
    hops: Hops | None = None,
    seed: int = 0,
    callbacks: Sequence[Callback] = (),
) -> Adaptation:
    """What the base method predicts around the model as it is; arguments as in `adapt`.

    Example:
        >>> import matcha_gnn as mg
        >>> graph = mg.datasets.csbm(num_nodes=100, num_features=8, seed=0)
        >>> predict(mg.GPRGNN(8, 2), graph).status
        <Status.UNADAPTED: 'unadapted'>
    """
    return adapt(model, graph, method, Unadapted(), hops=hops, seed=seed, callbacks=callbacks)


def _on_graph(
    graph: Graph | GraphLike | PlannedGraph,
    model: Backbone,
    method: BaseMethod,
    strategy: Strategy,
    seed: int,
    work: Callable[[BaseGraph, bool], Adaptation],
) -> Adaptation:
    """Do some work on a graph, wherever its nodes lie; see `PlannedGraph.adapted`."""
    if isinstance(graph, PlannedGraph):
        return graph.adapted(model, method, strategy, seed, work)
    target = unlabelled(graph)
    if device_of(target.device).free_bytes is not None:
        from matcha_gnn.graphs.stored.host import with_room

        target = with_room(target, model, method, strategy)
    return work(target, False)


def check_arguments(
    model: Backbone,
    method: BaseMethod,
    strategy: Strategy,
    seed: int,
    callbacks: Sequence[Callback],
) -> None:
    """Every argument is of its kind and goes with the others; common slips say what to do."""
    require_kind("model", model, Backbone, "a Backbone; mg.wrap(net) makes one of a PyG network")
    require_kind("method", method, BaseMethod, "a BaseMethod, such as mg.T3A()")
    require_kind("strategy", strategy, Strategy, "a Strategy, such as mg.Matcha()")
    require_whole("seed", seed, least=0, most=LARGEST_SEED)
    require_kind("callbacks", callbacks, Sequence, "a list of Callbacks")
    for callback in callbacks:
        require_kind("callbacks", callback, Callback, "a list of Callbacks")
    require_precision(model)
    require_finite(model)
    method.require(model)
    strategy.require(model, method)
