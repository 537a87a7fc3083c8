"""The result of one rank, and gathering the predictions of all ranks on the first."""

from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import torch
from torch import Tensor

from matcha_gnn.errors import IncompatibleError
from matcha_gnn.graphs.memory import Graph
from matcha_gnn.graphs.sharded.shard import GraphShard
from matcha_gnn.result import Adaptation
from matcha_gnn.typing import FloatArray


@dataclass(frozen=True, eq=False, repr=False)
class ShardAdaptation(Adaptation):
    """An adaptation with the predictions of one rank's nodes.

    γ, model, history, status and decision are those of the whole graph, the same on all ranks.

    Attributes:
        nodes: the numbers of this rank's nodes in the whole graph, ascending, [n].
        num_nodes: of the whole graph.
        sent: bytes that this rank has sent, by purpose.
        changed_in_all: share of all nodes whose label changed.
        counts_in_all: `class_counts` of all nodes.
    """

    nodes: Tensor = field(kw_only=True)
    num_nodes: int = field(kw_only=True)
    sent: dict[str, int] = field(kw_only=True)
    changed_in_all: float = field(kw_only=True)
    counts_in_all: tuple[FloatArray, FloatArray] = field(kw_only=True)

    @property
    def changed(self) -> float:
        """Share of the nodes of all ranks whose label changed."""
        return self.changed_in_all

    @property
    def class_counts(self) -> tuple[FloatArray, FloatArray]:
        """Nodes of all ranks that are given each class before and after adaptation, [C] each."""
        return self.counts_in_all

    def report(self, *arguments: Any, **options: Any) -> None:
        """Refused: a page shows the whole graph."""
        raise IncompatibleError("report: this is the result of one rank; use gather=True")

    def plot(self) -> Any:
        """Refused, as `report` is."""
        raise IncompatibleError("plot: this is the result of one rank; use gather=True")


def shard_result(result: Adaptation, graph: GraphShard) -> ShardAdaptation:
    """A rank's result, with counts over all ranks."""
    shard = graph.shard
    moved = float((result.labels != result.labels_before).sum())
    changed, before, after = shard.total(moved, *result.class_counts)
    return ShardAdaptation(
        **{each.name: getattr(result, each.name) for each in fields(result)},
        nodes=torch.from_numpy(shard.nodes),
        num_nodes=shard.partition.num_nodes,
        sent=dict(shard.ranks.sent),
        changed_in_all=float(changed) / shard.partition.num_nodes,
        counts_in_all=(before, after),
    )


def gathered(result: ShardAdaptation, graph: GraphShard, whole: Graph | None) -> Adaptation:
    """Predictions of all nodes on rank 0; the other ranks keep those of their nodes.

    Args:
        result: of this rank.
        graph: its shard.
        whole: the graph, where rank 0 has it, for the report.
    """
    shard = graph.shard
    probs, before = (_collected(graph, rows) for rows in (result.probs, result.probs_before))
    if shard.ranks.rank != 0:
        return result
    values = {each.name: getattr(result, each.name) for each in fields(result)}
    values |= {"probs": probs, "probs_before": before}
    if whole is None:
        values["nodes"] = torch.arange(shard.partition.num_nodes)
        return ShardAdaptation(**values)
    names, place = {each.name for each in fields(Adaptation)}, whole.x.device
    kept = {name: value for name, value in values.items() if name in names}
    moved = {name: kept[name].to(place) for name in ("probs", "probs_before", "model", "gamma")}
    return Adaptation(**kept | moved | {"graph": whole})


def _collected(graph: GraphShard, rows: Tensor) -> Tensor:
    """On rank 0 the rows of all nodes by their numbers; nothing elsewhere."""
    shard, ranks = graph.shard, graph.shard.ranks
    to = [len(rows)] + [0] * (ranks.size - 1)
    of = np.diff(shard.partition.cuts).tolist() if ranks.rank == 0 else [0] * ranks.size
    return ranks.exchange(rows.to(ranks.device), to, of, purpose="gathered predictions")
