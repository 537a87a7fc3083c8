"""A graph sharded over the ranks of a cluster: shard it, adapt, gather."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from matcha_gnn.errors import IncompatibleError, InvalidArgumentError
from matcha_gnn.gamma.methods import BaseMethod, Modifies
from matcha_gnn.gamma.models import Backbone, FilterBackbone, LinearBackbone
from matcha_gnn.gamma.strategies import Strategy
from matcha_gnn.graphs.memory import Graph, GraphLike, content_hash, unlabelled
from matcha_gnn.graphs.sharded import costs
from matcha_gnn.graphs.sharded.ranks import TIMEOUT, Ranks, joined
from matcha_gnn.graphs.sharded.result import gathered, shard_result
from matcha_gnn.graphs.sharded.shard import GraphShard, shard_of
from matcha_gnn.graphs.sharded.stored import shard_of_store
from matcha_gnn.graphs.stored import GraphStore
from matcha_gnn.graphs.stored.plan import in_words
from matcha_gnn.graphs.stored.target import require_float32
from matcha_gnn.result import Adaptation

logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class ShardedGraph:
    """A graph whose nodes are sharded over the processes of a cluster; see `shard`."""

    graph: GraphLike | GraphStore
    gather: bool
    timeout: float

    def adapted(
        self,
        model: Backbone,
        method: BaseMethod,
        strategy: Strategy,
        seed: int,
        work: Callable[[Graph, bool], Adaptation],
    ) -> Adaptation:
        """See `PlannedGraph.adapted`: every rank works on its shard, and ranks exchange sums."""
        graph = self.graph
        with joined(self.timeout, model.gamma.device.type) as ranks:
            with ranks.agreeing("input"):
                whole = graph if isinstance(graph, GraphStore) else unlabelled(graph)
                _require(model, whole, method, strategy, ranks)
                what = (method.name, method.settings(), strategy.name, strategy.parameters(), seed)
                digest = f"{content_hash(*model.state_dict().values())} {whole.fingerprint} {what}"
            _require_same(digest, ranks)
            local, in_memory = _sharded(whole, ranks)
            tell = whole.tell if isinstance(whole, GraphStore) else logger.info
            tell(_estimate(model, local))
            result = shard_result(work(cast(Graph, local), ranks.rank > 0), local)
            return gathered(result, local, in_memory) if self.gather else result


def shard(
    graph: GraphLike | GraphStore,
    *,
    gather: bool = False,
    timeout: float = TIMEOUT,
) -> ShardedGraph:
    """A graph for `mg.adapt` over all processes of a cluster; every process calls both.

    An existing process group of torch.distributed is used; in a process that torchrun started, one
    is created: gloo for a model on the CPU, NCCL for one on a GPU. Predictions and γ are those of
    one process up to rounding. The result is a `ShardAdaptation`: γ, model, trace and status of the
    whole graph, predictions of this rank's nodes. With `gather` rank 0 has the predictions of all
    nodes.

    Args:
        graph: a graph in memory, the same on all ranks, of which each takes its shard; or a store
            on a shared file system, of which each rank reads its shard, and where it keeps its
            hops.
        gather: gather all predictions on rank 0; the other ranks keep those of their nodes.
        timeout: seconds to wait for another rank; an existing process group keeps its own limit.

    Example:
        >>> import matcha_gnn as mg
        >>> import torch.distributed as dist
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> graph = mg.datasets.csbm(num_nodes=100, num_features=8, seed=0)
        >>> result = mg.adapt(mg.GPRGNN(8, 2), shard(graph), strategy=mg.Matcha(rounds=2))
        >>> dist.destroy_process_group()
        >>> result.num_nodes, result.probs.shape
        (100, torch.Size([100, 2]))
    """
    return ShardedGraph(graph, gather, timeout)


def _sharded(whole: Graph | GraphStore, ranks: Ranks) -> tuple[GraphShard, Graph | None]:
    """This rank's shard, and the whole graph where it is in memory."""
    if isinstance(whole, GraphStore):
        return shard_of_store(whole, ranks), None
    return shard_of(whole, ranks), whole


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


def _require(
    model: Backbone,
    graph: Graph | GraphStore,
    method: BaseMethod,
    strategy: Strategy,
    ranks: Ranks,
) -> None:
    """Raise IncompatibleError for what needs all nodes in one process."""
    if not method.streams:
        raise IncompatibleError(f"method: {method.name} needs all nodes in one process")
    if not isinstance(model, LinearBackbone) or not strategy.shardable:
        raise IncompatibleError(
            f"model, strategy: got {model.name}, {strategy.name}; allowed over ranks: a model that "
            "mixes cached hops linearly, a strategy that moves γ alone"
        )
    needs_powers = Modifies.NORM in method.modifies or isinstance(graph, GraphStore)
    if needs_powers and not isinstance(model, FilterBackbone):
        what = "a store" if isinstance(graph, GraphStore) else method.name
        raise IncompatibleError(f"model: hops of {model.name} are not powers of P; {what} needs it")
    if isinstance(graph, GraphStore):
        require_float32(model)
        if graph.memory is not None:
            allowed = "None where ranks share a store: each holds the hops of its shard"
            raise InvalidArgumentError("memory", repr(graph.memory), allowed)
    place, messages = model.gamma.device, ranks.device
    if place.type != messages.type:
        raise IncompatibleError(
            f"the model is on {place}, and the process group is for {messages}: use gloo for the "
            "CPU, NCCL for GPUs"
        )


def _require_same(digest: str, ranks: Ranks) -> None:
    if any(ranks.counts(int(digest != ranks.broadcast(digest)))):
        raise IncompatibleError(
            "the ranks were given different models, graphs, methods or strategies"
        )
