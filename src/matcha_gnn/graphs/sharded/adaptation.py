"""Adaptation over the ranks of a cluster: shard the graph, adapt, gather."""

import inspect
import logging
from typing import Any, cast

from matcha_gnn import adaptation
from matcha_gnn.backbones import Backbone
from matcha_gnn.errors import IncompatibleError, InvalidArgumentError, require_kind
from matcha_gnn.graphs.memory import Graph, GraphLike, content_hash, unlabelled
from matcha_gnn.graphs.sharded import costs
from matcha_gnn.graphs.sharded.ranks import TIMEOUT, Ranks, joined
from matcha_gnn.graphs.sharded.result import gathered, shard_result
from matcha_gnn.graphs.sharded.shard import GraphShard, shard_of
from matcha_gnn.graphs.sharded.stored import shard_of_store
from matcha_gnn.graphs.stored import GraphStore
from matcha_gnn.graphs.stored.plan import in_words
from matcha_gnn.graphs.stored.target import require_float32
from matcha_gnn.losses import Loss
from matcha_gnn.methods import ERM, BaseMethod, Modifies
from matcha_gnn.monitoring.progress import LateBar
from matcha_gnn.result import Adaptation

logger = logging.getLogger(__name__)

DECIDING = (
    "protect", "epochs", "lr", "optimizer", "moves", "restart", "features", "seed"
)  # fmt: skip
"""Arguments of `mg.adapt` that determine the result, besides method and loss."""


def adapt(
    model: Backbone,
    graph: GraphLike | GraphStore,
    method: BaseMethod | None = None,
    loss: Loss | None = None,
    *,
    partition: str = "contiguous",
    gather: bool = False,
    timeout: float = TIMEOUT,
    **settings: Any,
) -> Adaptation:
    """`mg.adapt` over all processes of a cluster; every process calls this.

    An existing process group of torch.distributed is used; in a process that torchrun started, one
    is created: gloo for a model on the CPU, NCCL for one on a GPU. Predictions and γ are those of
    one process up to rounding.

    Args:
        model: a trained backbone, the same on all ranks; it is not changed.
        graph: the target: a graph in memory, the same on all ranks, of which each takes its shard;
            or a store on a shared file system, of which each rank reads its shard, and where it
            keeps its hops.
        method: ERM, T3A or Tent, or another that reads nodes in blocks; ERM by default.
        loss: see `mg.adapt`.
        partition: "contiguous" ranges of nodes, or "metis": shards with few edges between them,
            which needs pymetis.
        gather: gather all predictions on rank 0; the other ranks keep those of their nodes.
        timeout: seconds to wait for another rank; an existing process group keeps its own limit.
        settings: the other arguments of `mg.adapt`.

    Returns:
        A `ShardAdaptation`: γ, model, history and status of the whole graph, predictions of this
        rank's nodes. With `gather` rank 0 has the predictions of all nodes.

    Raises:
        InvalidArgumentError, InvalidGraphError, IncompatibleError: before any work.
        DistributedError: a rank has died, does not respond, or has failed.

    Example:
        >>> import matcha_gnn as mg
        >>> import torch.distributed as dist
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> graph = mg.datasets.csbm(num_nodes=100, num_features=8, seed=0)
        >>> result = adapt(mg.GPRGNN(8, 2), graph, epochs=2, protect=False)
        >>> dist.destroy_process_group()
        >>> result.num_nodes, result.probs.shape
        (100, torch.Size([100, 2]))
    """
    require_kind("model", model, Backbone, "a Backbone that mixes cached hops, such as mg.GPRGNN")
    method = method or ERM()
    with joined(timeout, model.gamma.device.type) as ranks:
        with ranks.agreeing("input"):
            whole = graph if isinstance(graph, GraphStore) else unlabelled(graph)
            decided = _checked(model, whole, method, loss, settings, ranks)
            digest = f"{content_hash(*model.state_dict().values())} {whole.fingerprint} {decided}"
        _require_same(digest, ranks)
        shard, in_memory = _sharded(whole, ranks, partition)
        tell = whole.tell if isinstance(whole, GraphStore) else logger.info
        tell(_estimate(model, shard))
        bar = {"progress": _no_progress if ranks.rank else LateBar("adapting")}
        found = adaptation.adapt(model, cast(GraphLike, shard), method, loss, **bar | settings)
        result = shard_result(found, shard)
        return gathered(result, shard, in_memory) if gather else result


def _sharded(
    whole: Graph | GraphStore, ranks: Ranks, partition: str
) -> tuple[GraphShard, Graph | None]:
    """This rank's shard, and the whole graph where it is in memory."""
    if isinstance(whole, GraphStore):
        return shard_of_store(whole, ranks, partition), None
    return shard_of(whole, ranks, partition), whole


def _no_progress(done: int, total: int) -> None:
    """Only rank 0 shows a bar."""


def _estimate(model: Backbone, graph: GraphShard) -> str:
    """Memory and messages of this rank, in one line."""
    ranks, halo = graph.shard.ranks, graph.adjacency.halo
    classes, width = model.head.weight.shape
    rows = len(halo.given) - halo.to[ranks.rank]
    stack = graph.num_nodes * (model.num_hops + 1) * width * model.gamma.element_size()
    hop = costs.hop_bytes(rows, width, model.gamma.element_size())
    round_bytes = costs.round_bytes(classes, model.num_hops, width, ranks.size)
    nodes = f"{graph.num_nodes:,} of {graph.shard.partition.num_nodes:,} nodes"
    return (
        f"rank {ranks.rank} of {ranks.size}: {nodes}, {in_words(stack)} of hops; "
        f"sends {in_words(hop)} per hop, {round_bytes:,} bytes per round"
    )


def _checked(
    model: Backbone,
    graph: Graph | GraphStore,
    method: BaseMethod,
    loss: Loss | None,
    settings: dict[str, Any],
    ranks: Ranks,
) -> dict[str, Any]:
    """The settings that determine the result; refuses what needs all nodes in one process."""
    known = inspect.signature(adaptation.adapt).parameters
    for name, value in settings.items():
        if name not in known or (name in ("hops", "memory") and value is not None):
            allowed = "an argument of mg.adapt other than hops and memory: each rank has its hops"
            raise InvalidArgumentError(name, _brief(value), allowed)
    given = {name: settings.get(name, known[name].default) for name in DECIDING}
    decided = adaptation.checked(model, method, loss, **given)
    if not method.streams:
        raise IncompatibleError(f"method: {method.name} is not supported over ranks; use mg.adapt")
    if not model.mixes_linearly or decided["moves"] != "gamma":
        raise IncompatibleError(
            f"model, moves: got {model.name}, {decided['moves']!r}; allowed over ranks: a model "
            "that mixes cached hops linearly, 'gamma'; use mg.adapt for others"
        )
    if not model.is_filter and (Modifies.NORM in method.modifies or isinstance(graph, GraphStore)):
        what = "a store" if isinstance(graph, GraphStore) else method.name
        raise IncompatibleError(f"model: hops of {model.name} are not powers of P; {what} needs it")
    if isinstance(graph, GraphStore):
        require_float32(model)
    place, messages = model.gamma.device, ranks.device
    if place.type != messages.type:
        raise IncompatibleError(
            f"the model is on {place}, and the process group is for {messages}: use gloo for the "
            "CPU, NCCL for GPUs"
        )
    return decided


def _brief(value: object) -> str:
    return repr(value) if isinstance(value, int | float | str) else f"a {type(value).__name__}"


def _require_same(digest: str, ranks: Ranks) -> None:
    if any(ranks.counts(int(digest != ranks.broadcast(digest)))):
        raise IncompatibleError("the ranks were given different models, graphs or settings")
