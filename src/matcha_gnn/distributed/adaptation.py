"""Adaptation over the ranks of a cluster: share the graph out, adapt, bring together."""

from typing import Any, cast

from matcha_gnn import adaptation
from matcha_gnn.backbones import Backbone
from matcha_gnn.distributed.part import GraphPart, part_of
from matcha_gnn.distributed.ranks import TIMEOUT, Ranks, joined
from matcha_gnn.distributed.result import gathered, part_result
from matcha_gnn.distributed.stored import part_of_store
from matcha_gnn.errors import IncompatibleError, InvalidArgumentError, require_kind
from matcha_gnn.graph import Graph, GraphLike, content_hash, unlabelled
from matcha_gnn.losses import Loss
from matcha_gnn.methods import ERM, BaseMethod, Touches
from matcha_gnn.progress import LateBar
from matcha_gnn.result import Adaptation
from matcha_gnn.stored import GraphStore


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
    """`mg.adapt` by all processes of a cluster together; every one of them calls this.

    Inside a process group of torch.distributed that is the one; in a process that torchrun
    started, one is made: gloo for a model on the CPU, NCCL for one on a GPU. Predictions and γ are
    those of one process up to rounding.

    Args:
        model: a trained backbone, the same on all ranks; it is not changed.
        graph: the target: a graph in memory, the same on all ranks, of which each takes its part;
            or a store on a file system that they share, of which each reads its part, and where
            it keeps its hops.
        method: ERM, T3A or Tent, or another that goes over nodes in blocks; ERM by default.
        loss: see `mg.adapt`.
        partition: "contiguous" ranges of nodes, or "metis": parts between which few edges run,
            which needs pymetis.
        gather: bring all predictions to rank 0; the other ranks keep their own nodes'.
        timeout: seconds after which a rank that does not answer is given up; in a process group
            that is there already its own limit counts.
        settings: the other arguments of `mg.adapt`.

    Returns:
        A `PartAdaptation`: γ, model, history and status of the whole, predictions of the nodes of
        this rank. With `gather` rank 0 has the predictions of all nodes.

    Raises:
        InvalidArgumentError, InvalidGraphError, IncompatibleError: before any work.
        DistributedError: a rank has died, does not answer, or could not do its part.

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
    with joined(timeout, model.gamma.device.type) as ranks:
        with ranks.agreeing("input"):
            whole = graph if isinstance(graph, GraphStore) else unlabelled(graph)
            _check(model, method or ERM(), settings, ranks)
            if isinstance(whole, GraphStore) and not model.is_filter:
                raise IncompatibleError(f"hops of {model.name} are no powers of P: not by a store")
            digest = _digest(model, method, loss, settings, whole)
        _require_same(digest, ranks)
        quiet = ranks.rank != 0
        settings = {"progress": _no_progress if quiet else LateBar("adapting")} | settings
        part, in_memory = _shared_out(whole, ranks, partition)
        found = adaptation.adapt(model, cast(GraphLike, part), method, loss, **settings)
        result = part_result(found, part)
        return gathered(result, part, in_memory) if gather else result


def _shared_out(
    whole: Graph | GraphStore, ranks: Ranks, partition: str
) -> tuple[GraphPart, Graph | None]:
    """This rank's part, and the whole graph where it is in memory."""
    if isinstance(whole, GraphStore):
        return part_of_store(whole, ranks, partition), None
    return part_of(whole, ranks, partition), whole


def _no_progress(done: int, total: int) -> None:
    """One bar is enough for all ranks."""


def _check(model: Backbone, method: BaseMethod, settings: dict[str, Any], ranks: Ranks) -> None:
    """Refuse what needs all nodes in one process."""
    require_kind("method", method, BaseMethod, "a BaseMethod, such as mg.T3A()")
    if settings.get("hops") is not None:
        raise InvalidArgumentError("hops", "those of one process", "None: each rank makes its own")
    if not method.streams:
        raise IncompatibleError(f"{method.name} needs all nodes in one process: use mg.adapt")
    if not model.mixes_linearly or settings.get("moves", "gamma") != "gamma":
        raise IncompatibleError(
            f"ranks share sums over cached hops: {model.name} must mix them linearly, and γ alone "
            "may move; use mg.adapt for others"
        )
    if Touches.NORM in method.touches and not model.is_filter:
        raise IncompatibleError(f"{method.name} runs all of {model.name} in one process")
    place, messages = model.gamma.device, ranks.device
    if place.type != messages.type:
        raise IncompatibleError(
            f"the model is on {place}, and the ranks exchange messages from {messages}: "
            "gloo goes with the CPU, NCCL with GPUs"
        )


def _digest(
    model: Backbone,
    method: BaseMethod | None,
    loss: Loss | None,
    settings: dict[str, Any],
    graph: Graph | GraphStore,
) -> str:
    """A short text that differs where ranks were given different work."""
    said = {
        name: value for name, value in settings.items() if name not in ("progress", "callbacks")
    }
    chosen = [(type(each).__name__, each.settings()) for each in (method, loss) if each]
    size = (graph.num_nodes, graph.num_features)
    return f"{content_hash(*model.state_dict().values())} {sorted(said.items())} {chosen} {size}"


def _require_same(digest: str, ranks: Ranks) -> None:
    if any(ranks.counts(int(digest != ranks.broadcast(digest)))):
        raise IncompatibleError("the ranks were given different models, graphs or settings")
