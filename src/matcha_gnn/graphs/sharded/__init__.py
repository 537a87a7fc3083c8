"""Adaptation over the ranks of a cluster, with torch.distributed."""

from matcha_gnn.graphs.sharded.adaptation import adapt
from matcha_gnn.graphs.sharded.outputs import write_shards
from matcha_gnn.graphs.sharded.ranks import Ranks, joined
from matcha_gnn.graphs.sharded.result import ShardAdaptation

__all__ = ["ShardAdaptation", "Ranks", "adapt", "joined", "write_shards"]
