"""A graph shared by the ranks of a cluster: share it out, work, bring together."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from matcha_gnn.backbones import Backbone, FilterBackbone, LinearBackbone
from matcha_gnn.errors import IncompatibleError, InvalidArgumentError
from matcha_gnn.graphs.memory import Graph, GraphLike, content_hash, unlabelled
from matcha_gnn.graphs.sharded import costs
from matcha_gnn.graphs.sharded.part import GraphPart, part_of
from matcha_gnn.graphs.sharded.ranks import TIMEOUT, Ranks, joined
from matcha_gnn.graphs.sharded.result import gathered, part_result
from matcha_gnn.graphs.sharded.stored import part_of_store
from matcha_gnn.graphs.stored import GraphStore
from matcha_gnn.graphs.stored.plan import in_words
from matcha_gnn.graphs.stored.target import require_float32
from matcha_gnn.methods import BaseMethod, Touches
from matcha_gnn.result import Adaptation
from matcha_gnn.strategies import Strategy

logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class ShardedGraph:
    """A graph whose nodes are shared by the processes of a cluster; see `shard`."""

    graph: GraphLike | GraphStore
    partition: str
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
        """See `PlannedGraph.adapted`: every rank works on its shard, and sums go around."""
        graph = self.graph
        with joined(self.timeout, model.gamma.device.type) as ranks:
            with ranks.agreeing("input"):
                whole = graph if isinstance(graph, GraphStore) else unlabelled(graph)
                _require(model, whole, method, strategy, ranks)
                what = (method.name, method.settings(), strategy.name, strategy.parameters(), seed)
                digest = f"{content_hash(*model.state_dict().values())} {whole.fingerprint} {what}"
            _require_same(digest, ranks)
            part, in_memory = _shared_out(whole, ranks, self.partition)
            tell = whole.tell if isinstance(whole, GraphStore) else logger.info
            tell(_estimate(model, part))
            result = part_result(work(cast(Graph, part), ranks.rank > 0), part)
            return gathered(result, part, in_memory) if self.gather else result


def shard(
    graph: GraphLike | GraphStore,
    *,
    partition: str = "contiguous",
    gather: bool = False,
    timeout: float = TIMEOUT,
) -> ShardedGraph:
    """A graph for `mg.adapt` by all processes of a cluster together; every one of them calls it.

    Inside a process group of torch.distributed that is the one; in a process that torchrun
    started, one is made: gloo for a model on the CPU, NCCL for one on a GPU. Predictions and γ are
    those of one process up to rounding. The result is a `PartAdaptation`: γ, model, trace and
    status of the whole, predictions of the nodes of this rank.

    Args:
        graph: a graph in memory, the same on all ranks, of which each takes its shard; or a store
            on a file system that they share, of which each reads its shard, and where it keeps
            its hops.
        partition: "contiguous" ranges of nodes, or "metis": shards between which few edges run,
            which needs pymetis.
        gather: bring all predictions to rank 0; the other ranks keep their own nodes'.
        timeout: seconds after which a rank that does not answer is given up; in a process group
            that is there already its own limit counts.

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
    return ShardedGraph(graph, partition, gather, timeout)


def _shared_out(
    whole: Graph | GraphStore, ranks: Ranks, partition: str
) -> tuple[GraphPart, Graph | None]:
    """This rank's part, and the whole graph where it is in memory."""
    if isinstance(whole, GraphStore):
        return part_of_store(whole, ranks, partition), None
    return part_of(whole, ranks, partition), whole


def _estimate(model: Backbone, part: GraphPart) -> str:
    """What this rank has to hold and to send, in one line."""
    ranks, halo = part.part.ranks, part.adjacency.halo
    classes, width = model.head.weight.shape
    rows = len(halo.given) - halo.to[ranks.rank]
    stack = part.num_nodes * (model.num_hops + 1) * width * model.gamma.element_size()
    hop = costs.hop_bytes(rows, width, model.gamma.element_size())
    epoch = costs.epoch_bytes(classes, model.num_hops, width, ranks.size)
    nodes = f"{part.num_nodes:,} of {part.part.partition.num_nodes:,} nodes"
    return (
        f"rank {ranks.rank} of {ranks.size}: {nodes}, {in_words(stack)} of hops; "
        f"sends {in_words(hop)} a hop, {epoch:,} bytes an epoch"
    )


def _require(
    model: Backbone,
    graph: Graph | GraphStore,
    method: BaseMethod,
    strategy: Strategy,
    ranks: Ranks,
) -> None:
    """Refuse what needs all nodes in one process."""
    if not method.streams:
        raise IncompatibleError(f"method: {method.name} needs all nodes in one process")
    if not isinstance(model, LinearBackbone) or not strategy.shardable:
        raise IncompatibleError(
            f"ranks share sums over cached hops: {model.name} must mix them linearly, and "
            f"{strategy.name} may move γ alone"
        )
    needs_powers = Touches.NORM in method.touches or isinstance(graph, GraphStore)
    if needs_powers and not isinstance(model, FilterBackbone):
        what = "a store" if isinstance(graph, GraphStore) else method.name
        raise IncompatibleError(f"hops of {model.name} are no powers of P, which {what} needs here")
    if isinstance(graph, GraphStore):
        require_float32(model)
        if graph.memory is not None:
            allowed = "None where ranks share a store: each holds the hops of its shard"
            raise InvalidArgumentError("memory", repr(graph.memory), allowed)
    place, messages = model.gamma.device, ranks.device
    if place.type != messages.type:
        raise IncompatibleError(
            f"the model is on {place}, and the ranks exchange messages from {messages}: "
            "gloo goes with the CPU, NCCL with GPUs"
        )


def _require_same(digest: str, ranks: Ranks) -> None:
    if any(ranks.counts(int(digest != ranks.broadcast(digest)))):
        raise IncompatibleError("the ranks have different models, graphs, methods or strategies")
